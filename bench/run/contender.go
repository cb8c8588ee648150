package run

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/bench/load"
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// openWait is the time limit for the start of a contender's processes.
const openWait = time.Minute

// contender is a peer with its processes, ready for one workload.
type contender struct {
	run       *Run
	peer      *peer.Peer
	w         workload.Workload
	prefix    string
	processes []*process
	slow      bool // in the last repetition, the harness ordered waiters to give up while other waiters were still being served
	orphan    bool // in the last repetition, the hot lock's key was in Redis when the harness ordered waiters to give up
	shared    bool // the process outlives the contender
}

var prefixes atomic.Int64

func (r *Run) open(p *peer.Peer, w workload.Workload) (c *contender, err error) {
	c = &contender{run: r, peer: p, w: w, prefix: fmt.Sprintf("bench%d:%s:%s", prefixes.Add(1), w.Name, p.Name)}
	if p.Needs == needsRedisson {
		return c, c.openRedisson()
	}
	for range w.Processes {
		one, err := startLoad(p.Name)
		if err != nil {
			c.close()
			return nil, err
		}
		c.processes = append(c.processes, one)
	}
	if err := c.openAll(c.w); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// openAll orders the processes to open their clients. w may differ from c.w in the numbers of processes and clients.
func (c *contender) openAll(w workload.Workload) error {
	env := peer.Env{
		Redis: c.run.redis.addr, Lease: w.Lease, Permits: w.Permits, Goroutines: w.Goroutines, Apart: w.Apart(), Linger: w.Linger, Poll: c.w.Poll,
	}
	if w.Shape == workload.Pending {
		env.Goroutines = 64
	}
	if c.run.etcd != nil {
		env.Etcd = c.run.etcd.addr
	}
	for i, p := range c.processes {
		err := p.send(load.Order{Do: load.Open, Peer: c.peer.Name, Env: env, Workload: &w, Prefix: c.prefix, Process: i})
		if err != nil {
			return err
		}
	}
	for _, p := range c.processes {
		if _, err := p.answer(load.Opened, openWait); err != nil {
			return err
		}
	}
	return nil
}

// close ends the processes, unless they are shared. Then it removes the keys that the contender left in Redis, and returns their number.
func (c *contender) close() (left int) {
	for _, p := range c.processes {
		_ = p.send(load.Order{Do: load.Close})
	}
	for _, p := range c.processes {
		_, _ = p.answer(load.Closed, endWait)
		if !c.shared {
			p.end()
		}
	}
	return c.run.redis.clean(c.prefix)
}

// seat returns the process that runs client n, and the number of the client within that process.
func (c *contender) seat(n int) (*process, int) {
	if len(c.processes) == 1 {
		return c.processes[0], n
	}
	return c.processes[n], 0
}

// keys returns the keys that exist while the hot lock is held.
func (c *contender) keys() []string {
	if c.peer.Keys == nil {
		return nil
	}
	return c.peer.Keys(c.w.NameOf(c.prefix, 0))
}

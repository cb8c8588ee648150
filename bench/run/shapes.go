package run

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/bench/load"
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/workload"
)

func (c *contender) onRedis() bool { return c.peer.Keys != nil }

func (c *contender) hasServer() bool { return c.peer.Role != peer.Ceiling }

// marked reports whether the processes themselves report the beginning and the end of the measured part.
func (c *contender) marked() bool {
	return c.w.Shape == workload.Holding || c.w.Shape == workload.Pending
}

// patience is the time that is allowed for the setup of a workload, in addition to its window.
func (r *Run) patience(w workload.Workload) time.Duration {
	return time.Duration(w.Names) * 2 * time.Millisecond
}

// read reads the counters of the contender's server, and the CPU that the contender's processes have used.
func (c *contender) read() (counters, int, error) {
	now, own, err := c.run.redis.read()
	if c.peer.Needs == needsEtcd && c.run.etcd != nil {
		now.cpu = processCPU(c.run.etcd.pid)
	}
	for _, p := range c.processes {
		now.clients += processCPU(p.command.Process.Pid)
	}
	return now, own, err
}

// measured drives the processes. They report the beginning and the end of the measured part. measured returns the last process's sample, and what the
// server did between the beginning and the end.
func (c *contender) measured(window time.Duration, atEnd func() error) (*load.Sample, counters, error) {
	var before, between counters
	var own, marks int
	samples, err := c.drive(window, func() error {
		now, size, err := c.read()
		marks++
		if marks == 1 {
			before, own = now, size
			return err
		}
		between = now.since(before, own)
		if err == nil && atEnd != nil {
			err = atEnd()
		}
		return err
	})
	if err != nil {
		return nil, between, err
	}
	return samples[len(samples)-1], between, nil
}

func (c *contender) measureHolding(window time.Duration) (repetition, error) {
	empty, _, err := c.read()
	if err != nil {
		return repetition{}, err
	}
	s, server, err := c.measured(window, nil)
	if err != nil {
		return repetition{}, err
	}
	n, seconds := float64(c.w.Names), float64(s.Elapsed)/1e9
	f := report.Figures{
		"client_cpu_cores": float64(s.CPU) / 1e9 / seconds,
		"server_cpu_cores": server.cpu.Seconds() / seconds,
		"acquired_per_s":   n / (float64(s.AcquireNs) / 1e9),
		"released_per_s":   n / (float64(s.DrainNs) / 1e9),
		"lost":             float64(s.Lost),
		"others_cpu_cores": server.othersCores(),
	}
	f["cpu_cores"] = f["client_cpu_cores"] + f["server_cpu_cores"]
	setKnown(f, "heap_bytes_per_lock", s.Heap, n)
	if c.onRedis() {
		f["scripts_per_10s"] = server.scripts / seconds * 10
		f["commands_per_10s"] = server.commands / seconds * 10
		f["bytes_per_10s"] = (server.in + server.out) / seconds * 10
		f["connections"] = server.peers
		if n >= 10_000 { // with fewer locks, the buffers of connections would outweigh the memory of the locks
			setKnown(f, "server_bytes_per_lock", server.memory-empty.memory, n)
		}
	}
	return repetition{figures: f}, nil
}

// measurePending lets the first client hold the lock until the cost of waiting has been measured.
func (c *contender) measurePending(window time.Duration) (repetition, error) {
	holder, client := c.seat(0)
	if err := holder.send(load.Order{Do: load.Acquire, Client: client}); err != nil {
		return repetition{}, err
	}
	if _, err := holder.answer(load.At, openWait); err != nil {
		return repetition{}, err
	}
	all := c.processes
	c.processes = all[len(all)-1:] // only the last process waits
	defer func() { c.processes = all }()
	s, server, err := c.measured(window, func() error {
		if err := holder.send(load.Order{Do: load.Release, Client: client}); err != nil {
			return err
		}
		return c.processes[0].send(load.Order{Do: load.Drain})
	})
	if err != nil {
		return repetition{}, err
	}
	if holder != c.processes[0] {
		if _, err := holder.answer(load.At, openWait); err != nil {
			return repetition{}, err
		}
	}
	n, seconds := float64(c.w.Names), float64(s.Elapsed)/1e9
	f := report.Figures{
		"client_cpu_cores":  float64(s.CPU) / 1e9 / seconds,
		"server_cpu_cores":  server.cpu.Seconds() / seconds,
		"waiting_cpu_cores": float64(s.CPU)/1e9/seconds + server.cpu.Seconds()/seconds,
		"served_per_s":      float64(s.Served) / (float64(s.DrainNs) / 1e9),
		"unserved":          n - float64(s.Served),
		"errors":            float64(s.Errors),
		"others_cpu_cores":  server.othersCores(),
	}
	setKnown(f, "heap_bytes_per_lock", s.Heap, n)
	if c.onRedis() {
		f["scripts_per_10s"] = server.scripts / seconds * 10
		f["connections"] = server.peers // including those of the holder's process
	}
	return repetition{figures: f, note: s.Error}, nil
}

// measureHandover measures two clients that pass the lock back and forth.
func (c *contender) measureHandover(window time.Duration) (repetition, error) {
	waits, f := load.NewHistogram(), report.Figures{"stuck": 0}
	holder := 0
	if _, err := c.at(holder, load.Acquire); err != nil {
		return repetition{}, err
	}
	before, own, err := c.read()
	if err != nil {
		return repetition{}, err
	}
	for end := time.Now().Add(window); time.Now().Before(end); {
		waiter := 1 - holder
		p, client := c.seat(waiter)
		if err := p.send(load.Order{Do: load.Acquire, Client: client}); err != nil {
			return repetition{}, err
		}
		time.Sleep(c.w.WaitMin + rand.N(c.w.WaitMax-c.w.WaitMin))
		released, acquired, err := c.passed(holder, waiter)
		if err != nil {
			return repetition{}, err
		}
		wait := acquired - released
		if wait > int64(stillFor) && c.peer.Keys != nil {
			f["stuck"]++
		}
		_ = waits.RecordValue(max(wait, 1))
		f["rounds"]++
		holder = waiter
	}
	after, _, err := c.read()
	if err != nil {
		return repetition{}, err
	}
	server := after.since(before, own)
	f["client_cpu_us_per_pair"] = float64(server.clients) / 1e3 / max(f["rounds"], 1)
	f["others_cpu_cores"] = server.othersCores()
	c.serverFigures(f, server, max(f["rounds"], 1))
	_, err = c.at(holder, load.Release)
	waitFigures(f, waits)
	return repetition{figures: f, waits: waits}, err
}

// passed orders the holder to release the lock. It returns two instants: when the release began, and when the waiter had the lock.
func (c *contender) passed(holder, waiter int) (released, acquired int64, err error) {
	p, client := c.seat(holder)
	if err := p.send(load.Order{Do: load.Release, Client: client}); err != nil {
		return 0, 0, err
	}
	if len(c.processes) > 1 {
		one, err := p.answer(load.At, hardWait)
		if err != nil {
			return 0, 0, err
		}
		other, _ := c.seat(waiter)
		two, err := other.answer(load.At, hardWait)
		return one.At, two.At, err
	}
	for range 2 { // if both clients are in one process, it reports both instants, in either order
		r, err := p.answer(load.At, hardWait)
		if err != nil {
			return 0, 0, err
		}
		if r.Client == holder {
			released = r.At
		} else {
			acquired = r.At
		}
	}
	return released, acquired, nil
}

func (c *contender) at(n int, do string) (load.Report, error) {
	p, client := c.seat(n)
	if err := p.send(load.Order{Do: do, Client: client}); err != nil {
		return load.Report{}, err
	}
	return p.answer(load.At, openWait)
}

// check rejects a contender that lets two holders in at once, across processes or within one.
func (r *Run) check(p *peer.Peer) error {
	if p.NoLock {
		return nil
	}
	w := workload.Workload{
		Name: "check", Shape: workload.Pairs, Processes: 2, Clients: 1, Goroutines: 4, Naming: workload.Hot, Lock: peer.Exclusive,
		Oracle: true, Lease: peer.Lease, Poll: time.Millisecond,
	}
	if p.Role == peer.Ceiling || p.OpenBatches != nil {
		w.Processes = 1
	}
	if p.OpenBatches != nil {
		w.Naming = workload.Distinct // the load process itself checks batches, when it opens them
	}
	c, err := r.open(p, w)
	if err != nil {
		return err
	}
	defer c.close()
	rep, err := c.measure(min(checkWindow, 5*r.options.Window))
	if err != nil {
		return err
	}
	if err := served(rep); err != nil {
		return err
	}
	return twoAtOnce(rep)
}

// checkWindow is how long a contender is checked.
const checkWindow = 400 * time.Millisecond

// cut kills all connections except the harness's, repeatedly until ctx ends, and returns how many it killed.
func (c *contender) cut(ctx context.Context) (killed int) {
	for {
		select {
		case <-ctx.Done():
			return killed
		case <-time.After(20*time.Millisecond + time.Duration(rand.Int64N(int64(30*time.Millisecond)))):
			killed += c.run.redis.killClients(ctx)
		}
	}
}

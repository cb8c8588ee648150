// Package run does the measuring: it starts the servers and the contenders' processes, drives them in turn, and summarizes the results.
package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/report"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// Options are the settings of a run.
type Options struct {
	Redis       string // host:port, or "" if the harness starts its own
	Workloads   []workload.Workload
	Peers       []*peer.Peer
	Repetitions int
	Window      time.Duration
	Quick       bool
	Progress    io.Writer
	Stop        <-chan os.Signal // a signal ends the run after the current workload; may be nil
}

// The programs that a contender may need besides Redis.
const (
	needsRedisson = "redisson"
	needsEtcd     = "etcd"
)

// Run is one run of the harness.
type Run struct {
	options Options
	redis   *redisServer
	etcd    *server
	jvm     *process
	results *report.Results
	there   map[string]bool // contenders that can run, and whose lock is exclusive
	show    *progress
}

// Measure runs the workloads and returns the results. The results name the contenders that cannot run, and those that failed in a workload. An error
// means that nothing could be measured.
func Measure(options Options) (*report.Results, error) {
	r := &Run{options: options, there: map[string]bool{}, show: newProgress(options.Progress)}
	defer r.end()
	var err error
	if r.redis, err = startRedis(options.Redis); err != nil {
		return nil, err
	}
	r.results = report.New(options.Quick, r.redis.version)
	for _, p := range options.Peers {
		if err := r.prepare(p); err != nil {
			r.results.Missing = append(r.results.Missing, report.Missing{Peer: p.Name, Why: err.Error()})
			r.show.line("%s does not take part: %v", p.Name, err)
			continue
		}
		r.there[p.Name] = true
		r.results.Peers = append(r.results.Peers, report.PeerOf(p))
	}
	if len(r.there) == 0 {
		return nil, errors.New("no contender is left")
	}
	r.plan()
	stopped := false
	for _, w := range options.Workloads {
		select {
		case <-options.Stop:
			stopped = true
		default:
		}
		if stopped {
			r.results.Skipped = append(r.results.Skipped, w.Name)
		} else {
			r.workload(w)
		}
	}
	r.show.clear()
	r.results.End()
	return r.results, nil
}

func (r *Run) end() {
	r.show.clear()
	if r.jvm != nil {
		r.jvm.end()
	}
	if r.etcd != nil {
		r.etcd.end()
	}
	if r.redis != nil {
		r.redis.end()
	}
}

// prepare starts the server or JVM that a contender needs, and checks that its lock is exclusive.
func (r *Run) prepare(p *peer.Peer) error {
	r.show.now("%s: is it exclusive?", p.Name)
	switch p.Needs {
	case needsEtcd:
		if err := r.startEtcd(); err != nil {
			return err
		}
	case needsRedisson:
		if err := r.startJVM(); err != nil {
			return err
		}
	}
	if err := r.check(p); err != nil {
		return fmt.Errorf("the check for mutual exclusion failed, so it is not measured: %w", err)
	}
	return nil
}

// takePart returns those contenders of a workload that can run.
func (r *Run) takePart(w workload.Workload) (peers []*peer.Peer) {
	for _, name := range w.Peers {
		for _, p := range r.options.Peers {
			if p.Name == name && r.there[name] {
				peers = append(peers, p)
			}
		}
	}
	return peers
}

func (r *Run) window(w workload.Workload) time.Duration {
	if r.options.Quick {
		if w.Shape == workload.Cut {
			return 5 * r.options.Window // long enough for a cut
		}
		return r.options.Window
	}
	return max(r.options.Window, w.Long)
}

// plan estimates the duration of the whole run, for the progress line.
func (r *Run) plan() {
	r.show.start = time.Now()
	for _, w := range r.options.Workloads {
		r.show.total += time.Duration(r.options.Repetitions*len(r.takePart(w))) * r.cost(w)
	}
}

// cost estimates how long one repetition takes, including its preparation and its end.
func (r *Run) cost(w workload.Workload) time.Duration {
	cost := r.window(w) + 100*time.Millisecond + time.Duration(w.Processes)*20*time.Millisecond
	switch w.Shape {
	case workload.Holding:
		cost += time.Duration(w.Names) * 60 * time.Microsecond
	case workload.Pending:
		cost += r.window(w)
	}
	return cost
}

// workload measures one workload. Its contenders take turns (A B C A B C), so that other load on the machine affects all of them alike.
func (r *Run) workload(w workload.Workload) {
	w = r.sized(w)
	result := report.Workload{Workload: w}
	result.Primary, result.Higher = w.Primary()
	peers := r.takePart(w)
	if len(peers) == 0 {
		return
	}
	contenders := make([]*contender, len(peers))
	outcomes := make([]report.Outcome, len(peers))
	for i, p := range peers {
		outcomes[i] = report.Outcome{Peer: p.Name, Refused: w.Refused(p.Name)}
		if !w.Isolated() {
			contenders[i] = r.ready(p, w, &outcomes[i])
		}
	}
	for n := range r.options.Repetitions {
		for i, p := range peers {
			r.repetition(n, p, w, contenders[i], &outcomes[i])
			r.show.done += r.cost(w)
		}
	}
	for _, c := range contenders {
		if c != nil {
			c.close()
		}
	}
	result.Outcomes = outcomes
	result.Summarize()
	r.results.Workloads = append(r.results.Workloads, result)
	r.show.clear()
	if r.options.Progress != nil {
		result.Print(r.options.Progress)
	}
}

// disturbedMax limits how often a repetition is measured again because other programs were busy meanwhile.
const disturbedMax = 5

// repetition measures one repetition of contender c, and adds it to the outcome. If the workload is isolated, c is nil, and a contender is opened for
// this repetition only.
func (r *Run) repetition(n int, p *peer.Peer, w workload.Workload, c *contender, o *report.Outcome) {
	again := disturbedMax
	if r.options.Quick {
		again = 0
	}
	undisturbed(o, again, func() (repetition, bool) {
		r.show.now("%s  %s  %d of %d", w.Name, p.Name, n+1, r.options.Repetitions)
		return r.once(p, w, c, o)
	})
}

// undisturbed measures a repetition and adds it to the outcome. If other programs were busy meanwhile, undisturbed discards the repetition and
// measures again; no other figure matters. After `again` discarded repetitions, it adds the next repetition in any case. If other programs were busy
// during that repetition, too, report.Results.Flaws says so.
func undisturbed(o *report.Outcome, again int, measure func() (rep repetition, ok bool)) {
	for ; ; again-- {
		rep, ok := measure()
		if !ok {
			return
		}
		if again == 0 || !rep.figures.Disturbed() {
			o.Add(rep.figures, rep.waits, rep.note)
			return
		}
		o.Discarded++
	}
}

// once measures one repetition of a contender. It uses c, or opens another contender if the workload is isolated. ok is false if the contender
// does not take part or has failed.
func (r *Run) once(p *peer.Peer, w workload.Workload, c *contender, o *report.Outcome) (rep repetition, ok bool) {
	if w.Isolated() {
		if c = r.ready(p, w, o); c != nil {
			defer c.close()
		}
	}
	if c == nil || o.Failed != "" {
		return rep, false
	}
	rep, err := r.measured(c)
	if err != nil {
		o.Failed = err.Error()
		c.discard()
	}
	return rep, err == nil
}

// ready returns a contender that is open and warm, or nil if it does not take part or cannot be opened.
func (r *Run) ready(p *peer.Peer, w workload.Workload, o *report.Outcome) *contender {
	if o.Refused != "" || o.Failed != "" {
		return nil
	}
	r.show.now("%s: %s opens", w.Name, p.Name)
	c, err := r.open(p, w)
	if err != nil {
		o.Failed = err.Error()
		return nil
	}
	r.warm(c, o)
	return c
}

// sized returns the workload in the size for this run. A quick run gets a smaller one.
func (r *Run) sized(w workload.Workload) workload.Workload {
	w.Lease = peer.Lease
	if r.options.Quick {
		w.Lease = 3 * time.Second // so short that leases are renewed
		w.Processes, w.Clients, w.Goroutines = min(w.Processes, 3), min(w.Clients, 4), min(w.Goroutines, 50)
		if w.Short > 0 {
			w.Names = w.Short
		}
		w.Linger = min(w.Linger, w.Lease/4) // the most that Holdfast allows
	}
	return w
}

// warm does a short run that does not count, which warms up connections, scripts, buffers and the JVM's compiler.
func (r *Run) warm(c *contender, o *report.Outcome) {
	window := r.options.Window / 4
	if c.shared {
		window *= 8
	}
	var err error
	switch c.w.Shape {
	case workload.Pairs, workload.Cut:
		_, err = c.measurePairs(window)
	case workload.Handover:
		_, err = c.measureHandover(window)
	}
	if err != nil {
		o.Failed = err.Error()
		c.discard()
	}
}

// measured does one repetition. It returns an error if the figures mean nothing.
func (r *Run) measured(c *contender) (repetition, error) {
	rep, err := c.measure(r.window(c.w))
	if err == nil {
		err = r.wrong(c.peer, &rep)
	}
	if err == nil && !r.options.Quick { // a slow machine may serve nobody in a quick run's window
		err = served(rep)
	}
	return rep, err
}

// wrong returns an error if a lock had more holders at a time than allowed, because then no figure of the contender means anything. In a quick run
// leases are short, so another library may lose a lock on a busy machine. In that case wrong only sets the note: no figure of a quick run is quoted.
func (r *Run) wrong(p *peer.Peer, rep *repetition) error {
	err := twoAtOnce(*rep)
	if err != nil && r.options.Quick && p.Role != peer.Ours {
		rep.note, err = err.Error(), nil
	}
	return err
}

func twoAtOnce(rep repetition) error {
	if n := rep.figures["overlaps"]; n > 0 {
		return fmt.Errorf("it let two holders in at once, %.0f times", n)
	}
	return nil
}

// served returns an error if there were errors and no pair was completed.
func served(rep repetition) error {
	if rate, ok := rep.figures["pairs_per_s"]; ok && rate == 0 && rep.note != "" {
		return fmt.Errorf("nobody was served: %s", rep.note)
	}
	return nil
}

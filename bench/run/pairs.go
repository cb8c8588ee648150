package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/bench/load"
)

const (
	startIn  = 50 * time.Millisecond // time from the order to the common start of all processes; drive adds a little for each process
	drainFor = 15 * time.Second      // waiters that still wait this long after the window have to give up
	stillFor = 5 * time.Second       // if nobody is served for this long after the window, the waiters count as stuck
	hardWait = 2 * time.Minute       // limit on the wait for a report; the wait for the end of a run is counted from the end of the window
)

// drive runs the workload in all processes at once. mark is called whenever a process reports a Mark.
func (c *contender) drive(window time.Duration, mark func() error) ([]*load.Sample, error) {
	c.slow, c.orphan = false, false
	begin := time.Now().Add(startIn + time.Duration(len(c.processes))*5*time.Millisecond)
	for _, p := range c.processes {
		if err := p.send(load.Order{Do: load.Run, Start: begin.UnixNano(), Window: int64(window)}); err != nil {
			return nil, err
		}
	}
	return c.collect(begin.Add(window), mark)
}

type from struct {
	process int
	report  load.Report
	open    bool
}

// collect waits for the samples. After the window, some waiters may still wait. collect orders them to give up once nobody has been served for
// stillFor, and at the latest drainFor after the window. If c.marked() is true, collect never does so.
func (c *contender) collect(end time.Time, mark func() error) ([]*load.Sample, error) {
	samples, progress := make([]*load.Sample, len(c.processes)), make([]int64, len(c.processes))
	reports, stop := c.reports()
	defer stop()
	var total int64
	moved, abandoned, left := end, false, len(samples)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for left > 0 {
		select {
		case f := <-reports:
			switch r := f.report; {
			case !f.open:
				return nil, c.processes[f.process].died()
			case r.Event == load.Failed:
				return nil, errors.New(r.Error)
			case r.Event == load.Done:
				samples[f.process] = r.Sample
				left--
			case r.Event == load.Mark && mark != nil:
				if err := mark(); err != nil {
					return nil, err
				}
			case r.Event == load.Progress:
				progress[f.process] = r.Pairs
				if now := sum(progress); now != total {
					total = now
					moved = later(end, time.Now())
				}
			}
		case <-tick.C:
			if !abandoned && !c.marked() && (time.Since(moved) > stillFor || time.Since(end) > drainFor) {
				abandoned = true
				c.slow = time.Since(moved) <= stillFor
				c.orphan = c.run.redis.exists(c.keys())
				for i, p := range c.processes {
					if samples[i] == nil {
						_ = p.send(load.Order{Do: load.Abandon})
					}
				}
			}
			if time.Since(end) > hardWait+c.run.patience(c.w) {
				return nil, fmt.Errorf("the run has not ended %v after the window", hardWait)
			}
		}
	}
	return samples, nil
}

// reports merges the reports of all processes, until stop is called.
func (c *contender) reports() (<-chan from, func()) {
	all, stopped := make(chan from), make(chan struct{})
	for i, p := range c.processes {
		go func() {
			for {
				select {
				case r, open := <-p.reports:
					select {
					case all <- from{i, r, open}:
					case <-stopped:
						return
					}
					if !open || r.Event == load.Done || r.Event == load.Failed {
						return
					}
				case <-stopped:
					return
				}
			}
		}()
	}
	return all, func() { close(stopped) }
}

func sum(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

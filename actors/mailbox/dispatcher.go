package mailbox

import "sync"

// Workers runs mailboxes on resident goroutines. protoactor's default dispatcher starts a goroutine per wake-up,
// whose stack has to grow each time; that alone was over half of the CPU time of a message.
type Workers struct {
	jobs chan func()
	done chan struct{}
	all  sync.WaitGroup
}

// residentWorkers is how many mailboxes can be busy at once before goroutines are started for the rest.
const residentWorkers = 32

func StartWorkers() *Workers {
	w := &Workers{jobs: make(chan func()), done: make(chan struct{})}
	for range residentWorkers {
		w.all.Go(func() {
			for {
				select {
				case job := <-w.jobs:
					job()
				case <-w.done:
					return
				}
			}
		})
	}
	return w
}

// Schedule hands a mailbox to an idle worker, or to a new goroutine: it never blocks, so no actor can wait for another one.
func (w *Workers) Schedule(job func()) {
	select {
	case w.jobs <- job:
	default:
		go job()
	}
}

// Throughput is how many messages a mailbox handles before it lets others run.
func (w *Workers) Throughput() int { return 300 }

// Stop ends the resident workers, after they have finished what they are at.
func (w *Workers) Stop() {
	close(w.done)
	w.all.Wait()
}

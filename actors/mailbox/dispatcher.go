package mailbox

import "sync"

// Workers runs mailboxes on resident goroutines. protoactor's default dispatcher starts a goroutine whenever an idle actor gets a
// message. The stack of each new goroutine has to grow, which takes more than half of the CPU time of a message.
type Workers struct {
	jobs chan func()
	done chan struct{}
	all  sync.WaitGroup
}

// residentWorkers is the number of mailboxes that can run at the same time before further mailboxes get goroutines of their own.
const residentWorkers = 32

// StartWorkers starts the resident goroutines. Stop ends them.
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

// Schedule gives a mailbox to an idle worker, or to a new goroutine. It never blocks, so no actor waits for another one.
func (w *Workers) Schedule(job func()) {
	select {
	case w.jobs <- job:
	default:
		go job()
	}
}

// Throughput returns the number of messages that a mailbox handles before it yields.
func (w *Workers) Throughput() int { return 300 }

// Stop ends the resident workers. It waits until they have finished their jobs.
func (w *Workers) Stop() {
	close(w.done)
	w.all.Wait()
}

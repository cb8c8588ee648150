package with

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
)

// once returns a cron.JobWrapper: when a job is due in several processes, one runs it and the others skip it. The lock is kept for atLeast,
// which must be longer than the difference between the processes' clocks, and shorter than the job's interval.
func once(rt *holdfast.Runtime, name string, atLeast time.Duration) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			err := rt.Lock("cron:"+name).TryDo(context.Background(), func(context.Context) error {
				job.Run()
				return nil
			}, holdfast.WithAtLeast(atLeast))
			if err != nil && !errors.Is(err, holdfast.ErrNotAcquired) {
				log.Print(err) // Redis does not answer, or the lock was lost while the job ran
			}
		})
	}
}

// Two processes have the same job in their cron. The example calls Run, as cron does when the job is due.
func Example_cron() {
	rts, _, end := processes(2)
	defer end()

	var replicas []*cron.Cron
	for i, rt := range rts {
		replica := cron.New(cron.WithChain(once(rt, "report", 10*time.Second)))
		if _, err := replica.AddFunc("0 6 * * *", func() { fmt.Println("the report, by replica", i) }); err != nil {
			log.Fatal(err)
		}
		replicas = append(replicas, replica)
	}
	for _, replica := range replicas { // it is six o'clock: the job is due in both processes, in the second a little later
		for _, due := range replica.Entries() {
			due.WrappedJob.Run()
		}
	}

	// Output:
	// the report, by replica 0
}

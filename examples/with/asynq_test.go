package with

import (
	"context"
	"fmt"
	"log"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// schedule runs asynq's scheduler while this process leads, so that tasks are enqueued once and not by each process. Each term has its
// own scheduler, because one that was shut down cannot be started again.
func schedule(ctx context.Context, e *holdfast.Election, client redis.UniversalClient, options asynq.SchedulerOpts,
	register func(*asynq.Scheduler) error) error {
	return e.Run(ctx, func(ctx context.Context, _ holdfast.Term) error {
		scheduler := asynq.NewSchedulerFromRedisClient(client, &options)
		if err := register(scheduler); err != nil {
			return err
		}
		if err := scheduler.Start(); err != nil {
			return err
		}
		<-ctx.Done() // the term ends
		scheduler.Shutdown()
		return nil
	})
}

// Two processes have a scheduler. Only the leader's scheduler enqueues tasks; when the leader stops, the other process takes over.
func Example_asynq() {
	rts, client, end := processes(2)
	defer end()

	register := func(s *asynq.Scheduler) error {
		_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
		return err
	}
	for i, rt := range rts {
		ctx, stop := context.WithCancel(context.Background())
		enqueued, stopped := make(chan *asynq.TaskInfo, 100), make(chan error, 1)
		options := asynq.SchedulerOpts{
			LogLevel:        asynq.FatalLevel,
			PostEnqueueFunc: func(task *asynq.TaskInfo, _ error) { enqueued <- task },
		}
		go func() {
			stopped <- schedule(ctx, rt.Election("scheduler", holdfast.ElectionOptions{}), client, options, register)
		}()
		task := <-enqueued
		fmt.Println("process", i, "enqueues", task.Type)
		stop() // a deployment ends this process
		if err := <-stopped; err != nil {
			log.Fatal(err)
		}
	}

	// Output:
	// process 0 enqueues report
	// process 1 enqueues report
}

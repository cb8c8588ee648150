package gocron_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	holdgocron "github.com/holdfast-go/holdfast/contrib/gocron"
	"github.com/holdfast-go/holdfast/embedded"
)

// A report runs once a day, no matter how many replicas of the service there are.
func ExampleNewLocker() {
	ctx := context.Background()
	server, err := embedded.Start() // in a service: its Redis
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = rt.Close(ctx) }()

	scheduler, err := gocron.NewScheduler(
		gocron.WithDistributedLocker(holdgocron.NewLocker(rt, holdgocron.AtLeast(10*time.Second))))
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), // in a service: gocron.DailyJob(...)
		gocron.NewTask(func() { fmt.Println("reporting"); close(done) }), gocron.WithName("report"))
	if err != nil {
		panic(err)
	}
	scheduler.Start()
	<-done
	fmt.Println(scheduler.Shutdown())
	// Output:
	// reporting
	// <nil>
}

// The leader runs all jobs. It may be any of the replicas.
func ExampleNewElector() {
	ctx := context.Background()
	server, err := embedded.Start() // in a service: its Redis
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = rt.Close(ctx) }() // ends the election

	election := rt.Election("jobs", holdfast.ElectionOptions{})
	go func() {
		err := election.Run(ctx, func(ctx context.Context, _ holdfast.Term) error { <-ctx.Done(); return nil })
		if err != nil && !errors.Is(err, holdfast.ErrClosed) {
			log.Print(err) // from now on, no job runs in this process
		}
	}()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(holdgocron.NewElector(election)))
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	report := sync.OnceFunc(func() { fmt.Println("reporting"); close(done) })
	_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(report), gocron.WithName("report"))
	if err != nil {
		panic(err)
	}
	scheduler.Start()
	<-done
	fmt.Println(scheduler.Shutdown())
	// Output:
	// reporting
	// <nil>
}

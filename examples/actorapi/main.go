// Actorapi shows the message API for actors: the user's actors wait for a lock, work, and release it, all by messages. One of them
// crashes, and one loses the lock. The runtime runs in the user's own actor system.
//
//	go run ./examples/actorapi
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "actorapi:", err)
		os.Exit(1)
	}
}

// office is where the clerks work.
type office struct {
	system *actor.ActorSystem
	lock   *holdfast.Lock
	said   chan string // what the clerks say
	out    io.Writer
}

// run opens the office and plays its scenes.
func run(out io.Writer) error {
	server, err := embedded.Start()
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	quiet := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
	system := actor.NewActorSystem(quiet)
	defer system.Shutdown()
	rt, err := holdfast.New(server.Client(), holdfast.Options{System: system, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	o := &office{system: system, lock: rt.Lock("orders"), said: make(chan string, 10), out: out}
	return errors.Join(o.inTurn(), o.crash(), o.loss(), rt.Close(context.Background()))
}

// hire spawns a clerk. A clerk that fails is stopped, which releases its lease. It is not restarted, because it would then hold a lease
// without knowing it.
func (o *office) hire(name string) *actor.PID {
	stop := actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })
	props := actor.PropsFromProducer(func() actor.Actor { return &clerk{name: name, lock: o.lock, said: o.said} }, actor.WithGuardian(stop))
	return o.system.Root.Spawn(props)
}

// inTurn: three clerks want the lock at the same time, and each gets it.
func (o *office) inTurn() error {
	for _, name := range []string{"Anna", "Ben", "Carla"} {
		o.system.Root.Send(o.hire(name), order{pages: 3})
	}
	return o.hear(6)
}

// crash: a clerk fails at work. The lock is free for the next one at once, without waiting for an expiry.
func (o *office) crash() error {
	o.system.Root.Send(o.hire("Dora"), order{pages: 3, spoiled: true})
	if err := o.hear(1); err != nil {
		return err
	}
	o.system.Root.Send(o.hire("Emil"), order{pages: 1})
	return o.hear(2)
}

// loss: the lock of a working clerk is force-released.
func (o *office) loss() error {
	o.system.Root.Send(o.hire("Fritz"), order{pages: 1 << 40})
	if err := o.hear(1); err != nil {
		return err
	}
	if _, err := o.lock.ForceRelease(context.Background()); err != nil {
		return err
	}
	return o.hear(1)
}

// hear prints what the clerks say next.
func (o *office) hear(lines int) error {
	for range lines {
		select {
		case line := <-o.said:
			fmt.Fprintln(o.out, line)
		case <-time.After(10 * time.Second):
			return errors.New("no clerk has said anything for 10 s")
		}
	}
	return nil
}

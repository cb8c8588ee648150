// Actorapi shows the actor message API: an actor of the user waits for a lock, works, and gives it back, all by messages.
// The runtime lives in the user's own actor system.
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
	"github.com/holdfast-go/holdfast/protocol"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "actorapi:", err)
		os.Exit(1)
	}
}

// clerk is an actor that needs the lock for every order.
type clerk struct {
	name string
	lock *holdfast.Lock
	out  chan<- string
}

// Receive handles the answers of the lock like any other message: nothing here blocks.
func (k *clerk) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		c.Request(k.lock.PID(), &protocol.Acquire{ID: 1, Kind: protocol.KindLock, Lock: k.lock.Name()})
	case *protocol.Granted:
		k.out <- k.name + " has the lock"
		// Work is more messages; when it is done:
		c.Request(k.lock.PID(), &protocol.Release{ID: 2, Kind: m.Kind, Lock: m.Lock, Serial: m.Serial})
	case *protocol.Released:
		k.out <- k.name + " gave it back"
	case *protocol.Refused:
		k.out <- fmt.Sprintf("%s was refused: %v", k.name, m.Err)
	case *protocol.Lost:
		k.out <- fmt.Sprintf("%s lost it: %v", k.name, m.Err)
	}
}

// run has two clerks contend for one lock.
func run(out io.Writer) error {
	server, err := embedded.Start()
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	quiet := actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
	system := actor.NewActorSystem(quiet)
	defer system.Shutdown()
	rt, err := holdfast.New(server.Client(), holdfast.Options{System: system})
	if err != nil {
		return err
	}
	told := make(chan string)
	for _, name := range []string{"first clerk", "second clerk"} {
		system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
			return &clerk{name: name, lock: rt.Lock("orders"), out: told}
		}))
	}
	for range 4 {
		select {
		case line := <-told:
			fmt.Fprintln(out, line)
		case <-time.After(10 * time.Second):
			return errors.New("a clerk waits for ever")
		}
	}
	return rt.Close(context.Background())
}

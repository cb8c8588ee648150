// Command contender makes rounds over a number in a file, guarded by a lock of the version of Holdfast that it is built with. Every
// other round of kind "read lock" only reads. It uses only the public API, so that versions_test.go can build it with
// any version.
//
//	contender ADDR KIND NAME ROUNDS FILE TOKENS
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

const players = 2

func main() {
	log.SetFlags(0)
	addr, kind, name, file, tokens := os.Args[1], os.Args[2], os.Args[3], os.Args[5], os.Args[6]
	rounds, err := strconv.Atoi(os.Args[4])
	must(err)
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	rt, err := holdfast.New(client, holdfast.Options{})
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for range players {
		group.Go(func() {
			for i := range rounds {
				<-time.After(rand.N(time.Millisecond))
				kind, inside := kind, func(token int64) { increment(file, tokens, token) }
				if kind == "read lock" && i%2 == 0 {
					kind = "write lock"
				} else if kind == "read lock" {
					inside = func(int64) { look(file) }
				}
				must(turn(ctx, rt, kind, name, inside))
			}
		})
	}
	group.Wait()
	must(rt.Close(ctx))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type acquirer interface {
	Acquire(ctx context.Context, opts ...holdfast.AcquireOption) (*holdfast.Lease, error)
}

// turn acquires the lock, calls the function `inside`, and releases the lock.
func turn(ctx context.Context, rt *holdfast.Runtime, kind, name string, inside func(token int64)) error {
	if kind == "semaphore" {
		if err := rt.Semaphore(name).Acquire(ctx, 1); err != nil {
			return err
		}
		inside(0)
		return rt.Semaphore(name).Release(ctx, 1)
	}
	lease, err := lock(rt, kind, name).Acquire(ctx)
	if err != nil {
		return err
	}
	inside(lease.Token())
	return lease.Release(ctx)
}

func lock(rt *holdfast.Runtime, kind, name string) acquirer {
	switch kind {
	case "lock":
		return rt.Lock(name)
	case "fair lock":
		return rt.FairLock(name)
	case "fenced lock":
		return rt.FencedLock(name)
	case "spin lock":
		return rt.SpinLock(name)
	case "read lock":
		return rt.RWLock(name).Read()
	case "write lock":
		return rt.RWLock(name).Write()
	case "permit semaphore":
		return rt.PermitSemaphore(name)
	case "multi lock":
		return holdfast.Multi(rt.Lock(name+".1"), rt.Lock(name+".2"), rt.Lock(name+".3"))
	case "red lock":
		return holdfast.Red(rt.Lock(name+".1"), rt.Lock(name+".2"), rt.Lock(name+".3"))
	}
	panic("no such kind: " + kind)
}

func number(file string) int {
	text, err := os.ReadFile(file)
	must(err)
	n, err := strconv.Atoi(string(text))
	must(err)
	return n
}

// look reads the number twice: under a read lock nobody writes in between.
func look(file string) {
	if before, after := number(file), number(file); before != after {
		log.Fatalf("the number changed while it was read: %d, then %d", before, after)
	}
}

func increment(file, tokens string, token int64) {
	n := number(file)
	must(os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600))
	if token > 0 {
		out, err := os.OpenFile(tokens, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		must(err)
		_, err = fmt.Fprintln(out, token)
		must(err)
		must(out.Close())
	}
}

package interop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// javaSide is one client of Redisson.
type javaSide struct {
	driver *driver
	client string
	id     string // its UUID
}

var lastThread atomic.Int64

func (*javaSide) String() string { return "Java" }

func (s *javaSide) party(k kind, name string) party {
	p := &javaParty{side: s, kind: k, name: name, thread: lastThread.Add(1) + 1_000_000}
	switch k.counter {
	case "semaphore":
		return javaCounter{p}
	case "permit":
		return &javaPermit{javaParty: p}
	case "latch":
		return javaLatch{p}
	}
	return p
}

func (s *javaSide) set(ctx context.Context, k kind, name string, n int) error {
	if k.counter == "" {
		return nil
	}
	_, err := s.ask(ctx, k.counter+"-set", "name="+name, "n="+strconv.Itoa(n))
	return err
}

func (s *javaSide) oust(ctx context.Context, k kind, name string, holder party) error {
	switch {
	case k.counter == "semaphore":
		_, err := s.ask(ctx, "semaphore-release", "name="+name)
		return err
	case k.counter == "permit":
		_, err := s.ask(ctx, "permit-release", "name="+name, "permit="+holder.id())
		return err
	case k.plural():
		for _, member := range k.decisive(name, holder) {
			if err := s.force(ctx, "lock", member); err != nil {
				return err
			}
		}
		return nil
	}
	return s.force(ctx, k.theirs, name)
}

func (s *javaSide) force(ctx context.Context, kind, name string) error {
	held, err := s.ask(ctx, "lock-force", "kind="+kind, "name="+name)
	if err == nil && held != "true" {
		return errWasFree
	}
	return err
}

func (s *javaSide) ask(ctx context.Context, verb string, arguments ...string) (string, error) {
	return s.driver.ask(ctx, verb, append(arguments, "client="+s.client)...)
}

// javaParty is a thread of a Redisson client, and takes a lock.
type javaParty struct {
	side   *javaSide
	kind   kind
	name   string
	thread int64
}

func (p *javaParty) ask(ctx context.Context, verb string, arguments ...string) (string, error) {
	arguments = append(arguments, "name="+p.kind.theirName(p.name))
	if p.kind.counter == "" {
		arguments = append(arguments, "kind="+p.kind.theirs, fmt.Sprintf("thread=%d", p.thread))
	}
	return p.side.ask(ctx, verb, arguments...)
}

// ms returns a duration as an argument of a request, in milliseconds. A duration of 0 becomes -1.
func ms(key string, d time.Duration) string {
	if d == 0 {
		return key + "=-1"
	}
	return fmt.Sprintf("%s=%d", key, d.Milliseconds())
}

func (p *javaParty) take(ctx context.Context, lease time.Duration) error {
	_, err := p.ask(ctx, "lock-acquire", ms("lease", lease))
	return err
}

func (p *javaParty) try(ctx context.Context, wait time.Duration) (bool, error) {
	got, err := p.ask(ctx, "lock-try", ms("wait", wait))
	return got == "true", err
}

func (p *javaParty) give(ctx context.Context) error {
	_, err := p.ask(ctx, "lock-release")
	if p.kind.theirs == "red" && errors.Is(err, errDriver) {
		return nil // a majority is enough, so one member may not have been held; Redisson's blocking unlock ignores this error, too
	}
	return err
}

func (p *javaParty) held(ctx context.Context) (bool, error) {
	got, err := p.ask(ctx, "lock-held")
	return got == "true", err
}

func (p *javaParty) id() string { return "" }

// javaCounter holds one permit of a semaphore.
type javaCounter struct{ *javaParty }

func (p javaCounter) take(ctx context.Context, _ time.Duration) error {
	_, err := p.ask(ctx, "semaphore-acquire")
	return err
}

func (p javaCounter) try(ctx context.Context, wait time.Duration) (bool, error) {
	got, err := p.ask(ctx, "semaphore-try", ms("wait", wait))
	return got == "true", err
}

func (p javaCounter) give(ctx context.Context) error {
	_, err := p.ask(ctx, "semaphore-release")
	return err
}

func (p javaCounter) held(context.Context) (bool, error) { return true, nil }

// javaPermit holds one permit of a permit semaphore, by its id.
type javaPermit struct {
	*javaParty
	permit string
}

func (p *javaPermit) take(ctx context.Context, lease time.Duration) (err error) {
	p.permit, err = p.ask(ctx, "permit-acquire", ms("lease", lease))
	return err
}

func (p *javaPermit) try(ctx context.Context, wait time.Duration) (bool, error) {
	permit, err := p.ask(ctx, "permit-try", ms("wait", wait))
	p.permit = permit
	return permit != "", err
}

func (p *javaPermit) give(ctx context.Context) error {
	_, err := p.ask(ctx, "permit-release", "permit="+p.permit)
	return err
}

func (p *javaPermit) held(ctx context.Context) (bool, error) {
	_, err := p.ask(ctx, "permit-lease", "permit="+p.permit)
	if err != nil && strings.Contains(err.Error(), "IllegalArgumentException") {
		return false, nil
	}
	return err == nil, err
}

func (p *javaPermit) id() string { return p.permit }

// javaLatch is a party of a latch: its method take waits until the count is zero, and its method give counts down.
type javaLatch struct{ *javaParty }

func (p javaLatch) take(ctx context.Context, _ time.Duration) error {
	_, err := p.ask(ctx, "latch-await")
	return err
}

func (p javaLatch) try(ctx context.Context, wait time.Duration) (bool, error) {
	got, err := p.ask(ctx, "latch-await", ms("wait", wait))
	return got == "true", err
}

func (p javaLatch) give(ctx context.Context) error {
	_, err := p.ask(ctx, "latch-down")
	return err
}

func (p javaLatch) held(context.Context) (bool, error) { return true, nil }

package actors

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

const (
	checkWait = 10 * time.Second // a check takes no longer, whatever ctx allows
)

// CheckServer tries everything that this engine will ask of the server, on throw-away names, and says what does not work.
// go-redis may ignore ctx for as long as its own timeouts are; the answer does not wait for it.
func (e *Engine) CheckServer(ctx context.Context, kinds ...*scripts.Kind) error {
	e.door.RLock()
	closing := e.closing.Load()
	if !closing {
		e.checks.Add(1)
	}
	e.door.RUnlock()
	if closing {
		return fmt.Errorf("holdfast: check: %w", protocol.ErrClosed)
	}
	asking, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	answer := make(chan error, 1)
	go func() {
		defer e.checks.Done()
		answer <- e.checkServer(asking, kinds)
	}()
	select {
	case err := <-answer:
		return err
	case <-asking.Done():
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("holdfast: check: %w: %w", e.causes.noAnswer(), ctx.Err())
	case e.ctx.Err() != nil:
		return fmt.Errorf("holdfast: check: %w", protocol.ErrClosed)
	}
	return fmt.Errorf("holdfast: check: %w", e.causes.noAnswer())
}

func (e *Engine) checkServer(ctx context.Context, kinds []*scripts.Kind) error {
	if _, err := e.ask(ctx, "ping"); err != nil {
		return fmt.Errorf("holdfast: check: the server cannot be used: %w", e.causes.explain(err))
	}
	var errs []error
	for _, kind := range kinds {
		errs = append(errs, e.checkKind(ctx, kind)...)
	}
	errs = append(errs, e.checkInfo(ctx)...)
	if err := Join(distinct(errs)...); err != nil {
		return fmt.Errorf("holdfast: check: %w", err)
	}
	return nil
}

// ask sends one command, once.
func (e *Engine) ask(ctx context.Context, args ...any) (any, error) {
	c := newCommand(args...)
	_ = e.client.Process(ctx, c)
	return c.Result()
}

// checkKind runs every script of a kind, and subscribes to its channel.
func (e *Engine) checkKind(ctx context.Context, kind *scripts.Kind) (errs []error) {
	number := strconv.FormatUint(e.Number(), 10)
	address, err := e.Address(kind, "holdfast-check-"+e.id+"-"+number)
	if err != nil {
		return []error{err}
	}
	raw := address.Raw
	if kind.Keeps != nil {
		defer func() {
			if _, err := e.ask(ctx, "del", kind.Keeps(raw)); err != nil {
				errs = append(errs, err)
			}
		}()
	}
	for _, call := range kind.Check(&e.site, raw, e.policy.NewID) {
		if call.Bounded() {
			call.SetNotAfter(time.Now().Add(MaxLease).UnixMilli()) // a check does not depend on clocks
		}
		errs = append(errs, e.tryScript(ctx, call))
	}
	if kind.Channel == nil {
		return errs
	}
	channel := kind.Channel(raw, e.policy.NewID())
	if err := e.trySubscribe(ctx, channel); err != nil {
		errs = append(errs, fmt.Errorf("subscribing to %s: %w", channel, err))
	}
	return errs
}

func (e *Engine) tryScript(ctx context.Context, call scripts.Call) error {
	_, err := e.ask(ctx, call.Command...)
	if isNoScript(err) {
		if _, err := e.ask(ctx, "script", "load", call.Script.Source); err != nil {
			return fmt.Errorf("loading a script: %w", e.causes.explain(err))
		}
		_, err = e.ask(ctx, call.Command...)
	}
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	cause := scripts.Explain(e.causes.explain(err))
	switch text := err.Error(); {
	case strings.Contains(text, "can't run this command"):
		return fmt.Errorf("running a script that calls %s: %w", commandsAt(call.Script, text), cause)
	case strings.Contains(text, "of the keys"):
		return fmt.Errorf("running a script on %q: %w", call.Keys(), cause)
	}
	return fmt.Errorf("running a script: %w", cause)
}

// distinct leaves out what has been said before: scripts often fail for one reason.
func distinct(errs []error) []error {
	said := map[string]bool{}
	return slices.DeleteFunc(errs, func(err error) bool {
		if err == nil || said[err.Error()] {
			return true
		}
		said[err.Error()] = true
		return false
	})
}

var (
	scriptLine    = regexp.MustCompile(`@user_script: ?(\d+)`)
	scriptCommand = regexp.MustCompile(`redis\.p?call\('?(\w+)`)
)

// commandsAt tells which command it was that a script may not call: the server tells the line at most.
func commandsAt(script *scripts.Script, refusal string) string {
	text := script.Source
	if found := scriptLine.FindStringSubmatch(refusal); found != nil {
		number, _ := strconv.Atoi(found[1])
		if lines := strings.Split(text, "\n"); number >= 1 && number <= len(lines) {
			text = lines[number-1]
		}
	}
	var commands []string
	for _, call := range scriptCommand.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(commands, call[1]) {
			commands = append(commands, call[1])
		}
	}
	return strings.Join(commands, " or ")
}

func (e *Engine) trySubscribe(ctx context.Context, channel string) error {
	pubsub := e.client.Subscribe(ctx, channel)
	defer func() { _ = pubsub.Close() }()
	_, err := pubsub.ReceiveTimeout(ctx, replyWait)
	if err == nil && pubsub.Unsubscribe(ctx, channel) == nil {
		_, err = pubsub.ReceiveTimeout(ctx, replyWait)
	}
	return e.causes.explain(err)
}

// checkInfo looks at version and eviction policy, if the user may read them: a lock that can be evicted is no lock.
func (e *Engine) checkInfo(ctx context.Context) (errs []error) {
	reply, err := e.ask(ctx, "info")
	if err != nil {
		return nil // not allowed to look; nothing that the runtime needs
	}
	info, _ := reply.(string)
	field := func(name string) string {
		_, rest, found := strings.Cut(info, "\n"+name+":")
		if !found {
			return ""
		}
		value, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(value)
	}
	if policy := field("maxmemory_policy"); policy != "" && policy != "noeviction" {
		errs = append(errs, fmt.Errorf("maxmemory-policy is %s, so locks may be evicted while they are held: set it to noeviction", policy))
	}
	if field("valkey_version") != "" {
		return errs
	}
	var major, minor int
	version := field("redis_version")
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n == 2 && (major < 6 || major == 6 && minor < 2) {
		errs = append(errs, fmt.Errorf("the server's version is %s, 6.2 or later is needed", version))
	}
	return errs
}

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

	"github.com/holdfast-go/holdfast/scripts"
)

// checkLease is how long the throw-away key of a check would stay if the check died.
const checkLease = 5 * time.Second

// CheckServer tries everything that this engine will ask of the server, on throw-away names, and says what does not work.
// go-redis may ignore ctx for as long as its own timeouts are; the answer does not wait for it.
func (e *Engine) CheckServer(ctx context.Context, kinds ...*scripts.Kind) error {
	answer := make(chan error, 1)
	go func() { answer <- e.checkServer(ctx, kinds) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("holdfast: check: the server did not answer in time: %w", ctx.Err())
	}
}

func (e *Engine) checkServer(ctx context.Context, kinds []*scripts.Kind) error {
	if err := e.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("holdfast: check: the server cannot be used: %w", err)
	}
	var errs []error
	for _, kind := range kinds {
		errs = append(errs, e.checkKind(ctx, kind)...)
	}
	errs = append(errs, e.checkInfo(ctx)...)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("holdfast: check: %w", err)
	}
	return nil
}

// checkKind runs every script of a kind, and subscribes to its channel.
func (e *Engine) checkKind(ctx context.Context, kind *scripts.Kind) (errs []error) {
	number := strconv.FormatUint(e.Number(), 10)
	address, err := e.Address(kind, "holdfast-check-"+e.id+"-"+number)
	if err != nil {
		return []error{err}
	}
	raw, first, second := address.Raw, e.id+":"+number, e.policy.NewID()
	for _, call := range []scripts.Call{
		kind.Acquire(&e.site, raw, scripts.Terms{Grant: first, Lease: checkLease}),
		kind.Acquire(&e.site, raw, scripts.Terms{Grant: second, Lease: checkLease, WantHolder: true}), // finds it busy
		kind.Inspect(raw),
		kind.Pass(&e.site, raw, scripts.Terms{From: first, Grant: second, Lease: checkLease}),
		kind.Renew(&e.site, []string{raw}, []string{second}, checkLease),
		kind.Release(&e.site, raw, scripts.Terms{Grant: second}),
		kind.ForceRelease(&e.site, raw),
	} {
		if call.Bounded() {
			call.SetNotAfter(time.Now().Add(MaxLease).UnixMilli()) // a check does not depend on clocks
		}
		if err := e.tryScript(ctx, call); err != nil {
			errs = append(errs, fmt.Errorf("script %s: %w", call.Script.Name, err))
		}
	}
	channel := kind.Channel(raw, first)
	if err := e.trySubscribe(ctx, channel); err != nil {
		errs = append(errs, fmt.Errorf("subscribing to %s: %w", channel, err))
	}
	return errs
}

func (e *Engine) tryScript(ctx context.Context, call scripts.Call) error {
	err := e.client.Do(ctx, call.Command...).Err()
	if isNoScript(err) {
		if err := e.client.ScriptLoad(ctx, call.Script.Source).Err(); err != nil {
			return fmt.Errorf("SCRIPT LOAD: %w", err)
		}
		err = e.client.Do(ctx, call.Command...).Err()
	}
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return nameDenied(call.Script, scripts.Explain(err))
}

var (
	scriptLine    = regexp.MustCompile(`@user_script: ?(\d+)`)
	scriptCommand = regexp.MustCompile(`redis\.p?call\('?(\w+)`)
)

// nameDenied adds which command it was that a script may not call: the server tells the line at most.
func nameDenied(script *scripts.Script, err error) error {
	if err == nil || !strings.Contains(err.Error(), "can't run this command") {
		return err
	}
	text := script.Source
	if found := scriptLine.FindStringSubmatch(err.Error()); found != nil {
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
	return fmt.Errorf("calling %s: %w", strings.Join(commands, " or "), err)
}

func (e *Engine) trySubscribe(ctx context.Context, channel string) error {
	pubsub := e.client.Subscribe(ctx, channel)
	defer func() { _ = pubsub.Close() }()
	_, err := pubsub.Receive(ctx)
	return err
}

// checkInfo looks at version and eviction policy, if the user may read them: a lock that can be evicted is no lock.
func (e *Engine) checkInfo(ctx context.Context) (errs []error) {
	info, err := e.client.Info(ctx).Result()
	if err != nil {
		return nil // not allowed to look; nothing that the runtime needs
	}
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

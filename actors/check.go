package actors

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

const (
	checkWait = 10 * time.Second // a check takes no longer, whatever ctx allows
	noLimit   = 1 << 53          // ms of server time: the largest that Lua has exactly
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
	if err := e.masters.learn(ctx); err != nil {
		return fmt.Errorf("holdfast: check: the cluster cannot be used: %w", e.causes.explain(err))
	}
	var mu sync.Mutex
	var errs []error
	if err := e.masters.each(ctx, func(n *node) error { // a cluster's at once
		found := e.checkNode(ctx, n, kinds)
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, found...)
		return nil
	}); err != nil {
		errs = append(errs, e.causes.explain(err))
	}
	if err := Join(distinct(errs)...); err != nil {
		return fmt.Errorf("holdfast: check: %w", err)
	}
	return nil
}

func (e *Engine) checkNode(ctx context.Context, n *node, kinds []*scripts.Kind) (errs []error) {
	c := &check{engine: e, node: n}
	if _, err := c.ask(ctx, "ping"); err != nil {
		return []error{fmt.Errorf("the server cannot be used: %w", n.causes.explain(err))}
	}
	if e.tells.asked.Load() {
		if err := askSharded(ctx, n.client); isDenied(err) {
			errs = append(errs, fmt.Errorf("asking whether messages can be sharded: %w", n.causes.explain(err)))
		}
	}
	for _, kind := range kinds {
		errs = append(errs, c.kind(ctx, kind)...)
	}
	if e.policy.AckReplicas > 0 {
		if _, err := c.ask(ctx, "wait", 0, 1); err != nil {
			errs = append(errs, fmt.Errorf("waiting for replicas: %w", n.causes.explain(err)))
		}
	}
	return append(errs, c.info(ctx)...)
}

// check tries one server.
type check struct {
	engine *Engine
	node   *node
}

// ask sends one command, once.
func (c *check) ask(ctx context.Context, args ...any) (any, error) {
	cmd := newCommand(args...)
	_ = c.node.client.Process(ctx, cmd)
	return cmd.Result()
}

// throwAway is a lock name that this server decides about.
func (c *check) throwAway(kind *scripts.Kind) (address *Address, err error) {
	for range 100_000 {
		number := strconv.FormatUint(c.engine.Number(), 10)
		found, err := c.engine.Address(kind, "holdfast-check-"+c.engine.id+"-"+number)
		if err != nil || c.engine.masters.of(found.Raw) == c.node {
			return &found, err
		}
	}
	return nil, nil // it has no slots
}

// kind runs every script of a kind, and subscribes to its channel.
func (c *check) kind(ctx context.Context, kind *scripts.Kind) (errs []error) {
	e := c.engine
	address, err := c.throwAway(kind)
	if err != nil {
		return []error{err}
	}
	if address == nil {
		return nil
	}
	raw := address.Raw
	if kind.Keeps != nil {
		defer func() {
			if _, err := c.ask(ctx, "del", kind.Keeps(raw)); err != nil {
				errs = append(errs, err)
			}
		}()
	}
	for _, call := range kind.Check(&e.site, raw, e.policy.NewID) {
		if call.Bounded() {
			call.SetNotAfter(noLimit) // a check does not depend on clocks
		}
		errs = append(errs, c.tryScript(ctx, call))
	}
	if kind.Channel == nil {
		return errs
	}
	channel := kind.Channel(raw, e.policy.NewID())
	if err := c.trySubscribe(ctx, channel); err != nil {
		errs = append(errs, fmt.Errorf("subscribing to %s: %w", channel, err))
	}
	return errs
}

func (c *check) tryScript(ctx context.Context, call scripts.Call) error {
	_, err := c.ask(ctx, call.Command...)
	if isNoScript(err) {
		if _, err := c.ask(ctx, "script", "load", call.Script.Source); err != nil {
			return fmt.Errorf("loading a script: %w", c.node.causes.explain(err))
		}
		_, err = c.ask(ctx, call.Command...)
	}
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	cause := scripts.Explain(c.node.causes.explain(err))
	switch text := err.Error(); {
	case strings.Contains(text, "can't run this command"):
		return fmt.Errorf("running a script that calls %s: %w", c.commandsAt(call.Script, text), cause)
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
func (c *check) commandsAt(script *scripts.Script, refusal string) string {
	text := script.Source
	if found := scriptLine.FindStringSubmatch(refusal); found != nil {
		number, _ := strconv.Atoi(found[1])
		if lines := strings.Split(text, "\n"); number >= 1 && number <= len(lines) {
			text = lines[number-1]
		}
	}
	var commands []string
	for _, call := range scriptCommand.FindAllStringSubmatch(text, -1) {
		command := call[1]
		if command == "publish" && c.engine.tells.sharded.Load() { // it is an argument
			command = "spublish"
		}
		if !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
	}
	return strings.Join(commands, " or ")
}

func (c *check) trySubscribe(ctx context.Context, channel string) error {
	subscribe, unsubscribe := c.node.client.Subscribe, (*redis.PubSub).Unsubscribe
	if c.engine.tells.sharded.Load() {
		subscribe, unsubscribe = c.node.client.SSubscribe, (*redis.PubSub).SUnsubscribe
	}
	pubsub := subscribe(ctx, channel)
	defer func() { _ = pubsub.Close() }()
	_, err := pubsub.ReceiveTimeout(ctx, replyWait)
	if err == nil && unsubscribe(pubsub, ctx, channel) == nil {
		_, err = pubsub.ReceiveTimeout(ctx, replyWait)
	}
	return c.node.causes.explain(err)
}

// info looks at version and eviction policy, if the user may read them: a lock that can be evicted is no lock.
func (c *check) info(ctx context.Context) (errs []error) {
	reply, err := c.ask(ctx, "info")
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
	if n, err := strconv.Atoi(field("connected_slaves")); err == nil && n < c.engine.policy.AckReplicas {
		errs = append(errs, fmt.Errorf("AckReplicas is %d, the server has %d replicas", c.engine.policy.AckReplicas, n))
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

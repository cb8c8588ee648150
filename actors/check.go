package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// CheckServer tries everything that this engine will ask of the server for these kinds, on throw-away names, and says what does not
// work. go-redis may ignore ctx for as long as its own timeouts are; the answer does not wait for it.
func (e *Engine) CheckServer(ctx context.Context, kinds []*scripts.Kind) error {
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
	err := e.causes.noAnswer()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	case e.ctx.Err() != nil:
		return fmt.Errorf("holdfast: check: %w", protocol.ErrClosed)
	}
	return checkError([]finding{e.causes.unreachable(err)})
}

// finding is one thing that is missing or wrong. The smaller its rank, the more important it is.
type finding struct {
	protocol.Finding
	rank  rank
	cause error
	at    []string // of a cluster's masters: where it was found
}

type rank int

const (
	rankReach rank = iota
	rankVersion
	rankRole
	rankRight
	rankScript
	rankSetting
)

// checkError is the findings in the order of their importance, each once; nil without any.
func checkError(findings []finding) error {
	if len(findings) == 0 {
		return nil
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return cmp.Compare(a.rank, b.rank) })
	var each []finding
	for _, f := range findings {
		if i := slices.IndexFunc(each, func(other finding) bool { return other.What == f.What }); i >= 0 {
			each[i].at = append(each[i].at, f.at...)
		} else {
			each = append(each, f)
		}
	}
	result := &protocol.CheckError{}
	for _, f := range each {
		if len(f.at) > 0 {
			f.Why += " (at " + strings.Join(f.at, ", ") + ")"
		}
		result.Findings = append(result.Findings, f.Finding)
		if f.cause != nil {
			result.Causes = append(result.Causes, f.cause)
		}
	}
	return result
}

func (e *Engine) checkServer(ctx context.Context, kinds []*scripts.Kind) error {
	if err := e.masters.learn(ctx); err != nil {
		return checkError([]finding{e.causes.unreachable(err)})
	}
	var mu sync.Mutex
	var findings []finding
	if err := e.masters.each(ctx, func(n *node) error { // a cluster's at once
		found := e.checkNode(ctx, n, kinds)
		if !n.alone {
			for i := range found {
				found[i].at = []string{n.causes.redis}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		findings = append(findings, found...)
		return nil
	}); err != nil {
		findings = append(findings, e.causes.unreachable(err))
	}
	return checkError(findings)
}

func (e *Engine) checkNode(ctx context.Context, n *node, kinds []*scripts.Kind) []finding {
	c := &check{engine: e, node: n, user: userOf(n.client)}
	if err := c.do(ctx, "ping"); err != nil && !isDenied(err) {
		return []finding{n.causes.unreachable(err)}
	}
	settings := c.server(ctx)
	if slices.ContainsFunc(settings, func(f finding) bool { return f.rank < rankRight }) {
		return settings // nothing works there, so nothing else says anything
	}
	findings := c.rights(ctx, kinds)
	if len(findings) == 0 {
		findings = c.scripts(ctx, kinds)
	}
	return append(findings, settings...)
}

// check tries one server.
type check struct {
	engine *Engine
	node   *node
	user   string // whose rights are looked at
}

// userOf is whom the server takes the client for.
func userOf(client redis.UniversalClient) string {
	c, ok := client.(*redis.Client)
	if !ok {
		return "<user>"
	}
	o := c.Options()
	if o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil {
		return "<user>" // only they know
	}
	return cmp.Or(o.Username, "default")
}

// ask sends one command, once.
func (c *check) ask(ctx context.Context, args ...any) (any, error) {
	cmd := newCommand(args...)
	_ = c.node.client.Process(ctx, cmd)
	return cmd.Result()
}

func (c *check) do(ctx context.Context, args ...any) error {
	_, err := c.ask(ctx, args...)
	return err
}

// call sends one call of a script, which it loads if need be.
func (c *check) call(ctx context.Context, call scripts.Call) (any, error) {
	if call.Bounded() {
		call.SetNotAfter(noLimit) // a check does not depend on clocks
	}
	reply, err := c.ask(ctx, call.Command...)
	if isNoScript(err) {
		if err := c.do(ctx, "script", "load", call.Script.Source); err != nil {
			return nil, err
		}
		reply, err = c.ask(ctx, call.Command...)
	}
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return reply, err
}

// throwAwayMark begins the names that a check uses.
const throwAwayMark = "holdfast-check-"

// throwAway is a lock name that this server decides about; nil: it has no slots.
func (c *check) throwAway(kind *scripts.Kind) (*Address, error) {
	for range 100_000 {
		number := strconv.FormatUint(c.engine.Number(), 10)
		found, err := c.engine.Address(kind, throwAwayMark+c.engine.id+"-"+number)
		if err != nil || c.engine.masters.of(found.Raw) == c.node {
			return &found, err
		}
	}
	return nil, nil
}

// scripts runs every script of these kinds, when nothing is known to be wrong.
func (c *check) scripts(ctx context.Context, kinds []*scripts.Kind) (findings []finding) {
	failed := map[string][]string{} // scripts by what is wrong with them
	causes := map[string]error{}
	note := func(what string, err error) {
		if err != nil {
			err = scripts.Explain(c.node.causes.explain(err))
			failed[err.Error()] = append(failed[err.Error()], what)
			causes[err.Error()] = err
		}
	}
	for _, kind := range kinds {
		address, err := c.throwAway(kind)
		if err != nil {
			return append(findings, finding{Finding: protocol.Finding{
				What: "a lock name cannot be mapped to a key", Why: err.Error(), Remedy: "mend Options.NameMapper",
			}, rank: rankScript, cause: err})
		}
		if address == nil {
			continue
		}
		for _, call := range kind.Check(&c.engine.site, address.Raw, c.engine.policy.NewID) {
			_, err := c.call(ctx, call)
			note("script "+call.Script.Name, err)
		}
		if kind.Keeps != nil {
			key := kind.Keeps(address.Raw)
			note("deleting "+strconv.Quote(key), c.do(ctx, "del", key))
		}
	}
	for text, names := range failed {
		slices.Sort(names)
		findings = append(findings, finding{Finding: protocol.Finding{
			What: "the server refuses what locks need: " + strings.Join(slices.Compact(names), ", "), Why: text, Remedy: remedyFor(causes[text]),
		}, rank: rankScript, cause: causes[text]})
	}
	slices.SortFunc(findings, func(a, b finding) int { return cmp.Compare(a.What, b.What) })
	return findings
}

// remedyFor is what helps against a refusal that is none of rights.
func remedyFor(err error) string {
	switch code, _, _ := strings.Cut(scripts.Reply(err), " "); code {
	case "OOM":
		return "make room: raise maxmemory, or find out what fills the server (MEMORY STATS)"
	case "READONLY":
		return "connect to the master; with Sentinel use redis.NewFailoverClient"
	case "MOVED", "ASK", "CLUSTERDOWN":
		return "use redis.NewClusterClient, and see that the cluster is whole (CLUSTER INFO)"
	case "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN":
		return "wait until the server has finished, and check again"
	case "MISCONF", "NOREPLICAS":
		return "mend the server's persistence or replicas: it refuses writes until then"
	}
	return "Redis 6.2 or later, or Valkey, is needed: see whether this server is one, and its log"
}

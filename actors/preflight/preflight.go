// Package preflight implements Runtime.Check. It tries every script, right, channel and setting that a runtime needs on the servers. It
// reports what does not work, and what to do about it.
package preflight

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

	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

const (
	checkWait = 10 * time.Second // the time limit of a check, whatever ctx allows
	mostBytes = 64 << 10         // a longer pipeline is split: a client's ReadTimeout is for a whole pipeline, and networks may be slow
	noLimit   = 1 << 53          // the server time, in ms, that a check passes to SetNotAfter: far in the future, and exact in Lua
)

// Config is what a check needs from its runtime.
type Config struct {
	Nodes       redisnode.Nodes
	Publish     *redisnode.PublishMode
	Errors      *redisnode.Errors
	Site        *scripts.Site
	AckReplicas int
	Linger      bool                                      // the runtime has a demand channel
	NewID       func() string                             // makes the id of a grant
	NewName     func() string                             // returns what follows throwAwayMark in a throw-away name; never the same text twice
	Key         func(name string) (key string, err error) // the key of a name
	Asking      *sync.WaitGroup                           // goroutines that may outlive Check, waiting for go-redis
}

// Check tries everything that a runtime needs from the servers for these kinds, with throw-away names. It returns a *protocol.CheckError with
// whatever does not work, or nil if everything does. go-redis may ignore the end of ctx until its own timeouts have passed. Check nevertheless
// returns when ctx ends, and after checkWait at the latest.
func Check(ctx context.Context, c Config, kinds []*scripts.Kind) error {
	asking, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	answer := make(chan error, 1)
	c.Asking.Go(func() { answer <- c.servers(asking, kinds) })
	select {
	case err := <-answer:
		return err
	case <-asking.Done():
	}
	err := c.Errors.NoAnswer()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return checkError([]finding{unreachable(c.Errors, err)})
}

// finding is one thing that is missing or wrong.
type finding struct {
	protocol.Finding
	rank  rank
	cause error
	at    []string // on a cluster: the masters at which it was found
}

// rank is the importance of a finding. Findings with a lower rank are reported first, because they may explain the others.
type rank int

const (
	rankReach rank = iota
	rankVersion
	rankRole
	rankRight
	rankHook
	rankScript
	rankSetting
)

// checkError merges equal findings and orders them by importance. It returns nil without findings.
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

// servers checks all servers.
func (c Config) servers(ctx context.Context, kinds []*scripts.Kind) error {
	if err := c.Nodes.Discover(ctx); err != nil {
		return checkError([]finding{unreachable(c.Errors, err)})
	}
	var mu sync.Mutex
	var findings []finding
	if err := c.Nodes.Each(ctx, func(n *redisnode.Node) { // concurrently for the masters of a cluster
		found := c.node(ctx, n, kinds)
		if !n.Standalone {
			for i := range found {
				found[i].at = []string{n.Errors.Name}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		findings = append(findings, found...)
	}); err != nil {
		findings = append(findings, unreachable(c.Errors, err))
	}
	return checkError(findings)
}

// node checks one server. It stops early if further findings would mean nothing, because the server cannot be reached or is of the wrong kind, or
// because rights are missing.
func (c Config) node(ctx context.Context, n *redisnode.Node, kinds []*scripts.Kind) []finding {
	one := &check{Config: c, node: n, user: userOf(n.Client)}
	if err := one.reach(ctx); err != nil && !scripts.IsDenied(err) {
		return []finding{unreachable(n.Errors, err)}
	}
	settings := one.server(ctx)
	if slices.ContainsFunc(settings, func(f finding) bool { return f.rank < rankRight }) {
		return settings // nothing works at such a server, so further findings mean nothing
	}
	trials := one.trials(kinds)
	findings := one.rights(ctx, trials)
	if len(findings) == 0 {
		findings = append(one.hooks(ctx, trials), one.scripts(ctx, trials)...)
	}
	return append(findings, settings...)
}

// check is the check of one server.
type check struct {
	Config
	node *redisnode.Node
	user string // the user of the connection, for messages
}

// reach pings the server. go-redis may dial for longer than the time limit of the whole check. reach gives up sooner, so that the check can still
// name the server that does not answer.
func (c *check) reach(ctx context.Context) error {
	answer := make(chan error, 1)
	c.Asking.Go(func() {
		_, err := c.ask(ctx, "ping")
		answer <- err
	})
	select {
	case err := <-answer:
		return err
	case <-time.After(redisnode.ReplyWait + time.Second):
	case <-ctx.Done():
	}
	return c.node.Errors.NoAnswer()
}

// userOf returns the user name by which the server knows the client.
func userOf(client redis.UniversalClient) string {
	c, ok := client.(*redis.Client)
	if !ok {
		return "<user>"
	}
	o := c.Options()
	if o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil {
		return "<user>" // the name comes from a credentials provider
	}
	return cmp.Or(o.Username, "default")
}

// reply is the server's reply to one command.
type reply struct {
	value any
	err   error
}

// send sends commands in one pipeline. go-redis does not repeat them. Even a single command is sent in a pipeline, as the gateways do, because hooks
// of the user's client may treat pipelines differently.
func (c *check) send(ctx context.Context, commands ...[]any) []reply {
	replies := make([]reply, len(commands))
	sent := make([]redisnode.Command, len(commands))
	for i, words := range commands {
		sent[i] = redisnode.NewCommand(words...)
	}
	err := c.pipeline(ctx, sent)
	for i, cmd := range sent {
		replies[i].value, replies[i].err = cmd.Result()
		if err != nil && cmd.Err() == nil && cmd.Val() == nil {
			replies[i].err = err
		}
	}
	return replies
}

func (c *check) pipeline(ctx context.Context, commands []redisnode.Command) (err error) {
	defer redisnode.RecoverTo(&err)
	pipe := c.node.Client.Pipeline()
	for _, cmd := range commands {
		_ = pipe.Process(ctx, cmd)
	}
	_, err = pipe.Exec(ctx)
	return err
}

func (c *check) ask(ctx context.Context, args ...any) (any, error) {
	r := c.send(ctx, args)[0]
	return r.value, r.err
}

// calls sends one pipeline, which first loads the scripts and then calls them. A check makes hundreds of calls. With one pipeline it ends in time on
// slow networks, too.
func (c *check) calls(ctx context.Context, calls ...scripts.Call) []reply {
	var loads, sent [][]any
	loaded := map[*scripts.Script]int{}
	for _, call := range calls {
		if _, found := loaded[call.Script]; !found {
			loaded[call.Script] = len(loads)
			loads = append(loads, []any{"script", "load", call.Script.Source})
		}
		if call.Bounded() {
			call.SetNotAfter(noLimit) // so that the outcome of a check does not depend on clocks
		}
		sent = append(sent, call.Sent())
	}
	all := c.send(ctx, append(loads, sent...)...)
	replies := all[len(loads):]
	for i, call := range calls {
		r, load := &replies[i], loaded[call.Script]
		if redisnode.IsNoScript(r.err) && all[load].err == nil { // another client has flushed the scripts in between
			*r = c.send(ctx, loads[load], call.Sent())[1]
		} else if redisnode.IsNoScript(r.err) {
			r.err = all[load].err
		}
		if errors.Is(r.err, redis.Nil) {
			r.err = nil
		}
	}
	return replies
}

// throwAwayMark is the beginning of the names that a check uses.
const throwAwayMark = "holdfast-check-"

// throwAway returns a key that this server stores, made from a throw-away name. It returns "" if there is no such key: the server has no slots, or
// Options.NameMapper maps no name to any of its slots.
func (c *check) throwAway() (key string, err error) {
	parts := map[uint16]bool{}
	for n := range 100_000 {
		key, err := c.Key(throwAwayMark + c.NewName())
		if err != nil || c.Nodes.ForKey(key) == c.node {
			return key, err
		}
		if parts[c.Nodes.Part(key)] = true; n > 20 && len(parts) == 1 {
			break // Options.NameMapper gives all names the same tag, so no key leads to this server; a search to the end would take long
		}
	}
	return "", nil
}

// trial is one kind of lock with a throw-away key, and what its scripts need.
type trial struct {
	kind   *scripts.Kind
	key    string
	err    error         // why there is no key
	needed scripts.Needs // nothing if there is no key
}

// trials makes a trial of each kind, or none if this server stores no keys.
func (c *check) trials(kinds []*scripts.Kind) (trials []trial) {
	for _, kind := range kinds {
		t := trial{kind: kind}
		t.key, t.err = c.throwAway()
		switch {
		case t.err == nil && t.key == "":
			return nil // the other kinds have no key here either, because the key does not depend on the kind
		case t.err == nil:
			t.needed = kind.Needs(c.Site, t.key, c.NewID)
		}
		trials = append(trials, t)
	}
	return trials
}

// scripts runs every script of all kinds. It is called only when no right is missing: a missing right would explain a failure.
//
// All calls of one kind are sent in one pipeline, which may also contain the calls of other kinds. If a kind's calls were split between two pipelines
// and the server fell silent between them, the later calls would not arrive. Then the server could keep keys that the first calls have written and
// that the later calls delete.
func (c *check) scripts(ctx context.Context, trials []trial) (findings []finding) {
	failed := map[string][]string{} // by error text: the scripts and commands that failed
	why := map[string]error{}
	note := func(what string, err error) {
		if err != nil {
			err = scripts.Explain(c.node.Errors.Explain(err))
			failed[err.Error()] = append(failed[err.Error()], what)
			why[err.Error()] = err
		}
	}
	var calls []scripts.Call
	bytes := 0
	var kept []string
	var deletes [][]any
	for i, t := range trials {
		if t.err != nil {
			return append(findings, finding{Finding: protocol.Finding{
				What: "a lock name cannot be mapped to a key", Why: t.err.Error(), Remedy: "mend Options.NameMapper",
			}, rank: rankScript, cause: t.err})
		}
		for _, call := range t.kind.Check(c.Site, t.key, c.NewID) {
			calls, bytes = append(calls, call), bytes+len(call.Script.Source)
		}
		if bytes >= mostBytes || i == len(trials)-1 {
			for j, r := range c.calls(ctx, calls...) {
				note("script "+calls[j].Script.Name, calls[j].WithKeys(r.err))
			}
			calls, bytes = nil, 0
		}
		if t.kind.Keeps != nil {
			key := t.kind.Keeps(t.key)
			kept, deletes = append(kept, key), append(deletes, []any{"del", key})
		}
	}
	for i, r := range c.send(ctx, deletes...) {
		note("deleting "+strconv.Quote(kept[i]), r.err)
	}
	for text, names := range failed {
		findings = append(findings, finding{Finding: protocol.Finding{
			What: "the server refuses what locks need: " + some(names), Why: text, Remedy: remedyFor(why[text]),
		}, rank: rankScript, cause: why[text]})
	}
	slices.SortFunc(findings, func(a, b finding) int { return cmp.Compare(a.What, b.What) })
	return findings
}

// some lists the first names and counts the rest.
func some(names []string) string {
	const most = 3
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// remedyFor says what to do about a refusal that is not about rights.
func remedyFor(err error) string {
	switch code, _, _ := strings.Cut(scripts.Reply(err), " "); code {
	case "OOM":
		return "make room: raise maxmemory, or find out what fills the server (MEMORY STATS)"
	case "READONLY":
		return "connect to the master; with Sentinel use redis.NewFailoverClient"
	case "MOVED", "ASK", "CLUSTERDOWN":
		return "use redis.NewClusterClient, and see that the cluster is whole (CLUSTER INFO)"
	case "CROSSSLOT":
		return "on a cluster no latch works whose name, after Options.NameMapper, has a {tag}: leave it out, or check the other kinds only"
	case "LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN":
		return "wait until the server has finished, and check again"
	case "MISCONF", "NOREPLICAS":
		return "mend the server's persistence or replicas: it refuses writes until then"
	}
	return "Redis 6.2 or later, or Valkey, is needed: see whether this server is one, and its log"
}

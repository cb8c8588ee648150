package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// need is a right, and the kinds that need it.
type need struct {
	rule  string // in the syntax of ACL SETUSER
	what  string // what the user cannot do without it
	kinds []string
	err   error // the refusal that shows that the right is missing, or errUntried; nil if the right is not known to be missing
}

// needs holds rights in the order in which they were added, each once.
type needs struct{ list []*need }

func (n *needs) add(kind *scripts.Kind, rule, what string) *need {
	i := slices.IndexFunc(n.list, func(other *need) bool { return other.rule == rule })
	if i < 0 {
		i = len(n.list)
		n.list = append(n.list, &need{rule: rule, what: what})
	}
	found := n.list[i]
	if kind != nil && !slices.Contains(found.kinds, string(kind.Name)) {
		found.kinds = append(found.kinds, string(kind.Name))
	}
	return found
}

// rights tries each right that the runtime and these kinds of locks need. It tries each one separately, so that one missing right does not hide
// another. If scripts cannot be called, it tries only the commands that the runtime itself sends (see method sent). It returns a finding for each
// right found missing.
func (c *check) rights(ctx context.Context, kinds []*scripts.Kind) []finding {
	n := &needs{}
	if c.sent(ctx, n) {
		for _, kind := range kinds {
			if key, err := c.throwAway(kind); err == nil && key != "" {
				c.kindRights(ctx, n, kind, key)
			}
		}
		if c.Linger {
			c.channel(ctx, n, nil, scripts.DemandChannel(throwAwayMark+c.NewName()))
		}
	}
	var findings []finding
	for _, need := range n.list {
		if need.err == nil {
			continue
		}
		err := c.node.Errors.Explain(need.err)
		why := err.Error()
		switch {
		case len(need.kinds) > 1 && len(need.kinds) == len(kinds):
			why = "needed for every kind (" + why + ")"
		case len(need.kinds) > 0:
			why = "needed for " + strings.Join(need.kinds, ", ") + " (" + why + ")"
		}
		findings = append(findings, finding{Finding: protocol.Finding{
			What: fmt.Sprintf("user %q may not %s", c.user, need.what), Why: why, Remedy: "ACL SETUSER " + c.user + " " + need.rule,
		}, rank: rankRight, cause: err})
	}
	return findings
}

// sent tries the commands that the runtime itself sends. It returns false if scripts cannot be called, because then nothing else can be
// tried.
func (c *check) sent(ctx context.Context, n *needs) bool {
	try := func(rule string, args ...any) error {
		err := c.do(ctx, args...)
		if scripts.IsDenied(err) {
			n.add(nil, "+"+rule, "call "+strings.ToUpper(strings.ReplaceAll(rule, "|", " "))).err = err
		}
		return err
	}
	_ = try("ping", "ping")
	_ = try("time", "time")
	if c.Publish.WasAsked() {
		_ = try("pubsub|shardnumsub", "pubsub", "shardnumsub")
	}
	if !c.node.Standalone {
		_ = try("asking", "asking")
	}
	if c.AckReplicas > 0 {
		_ = try("wait", "wait", 0, 1)
	}
	none := scripts.CheckCommands(nil)
	loaded := try("script|load", "script", "load", none.Script.Source)
	called := try("evalsha", none.Command...)
	return loaded == nil && called == nil || redisnode.IsNoScript(called) && loaded == nil
}

// kindRights tries the keys, commands and channels that the scripts of a kind use.
func (c *check) kindRights(ctx context.Context, n *needs, kind *scripts.Kind, raw string) {
	needed := kind.Needs(c.Site, raw, c.NewID)
	var calls []scripts.Call
	for _, key := range needed.Keys {
		calls = append(calls, scripts.CheckKey(key))
	}
	for i, r := range c.calls(ctx, calls...) {
		pattern := patternOf(needed.Keys[i])
		need := n.add(kind, "~"+pattern, "use keys like "+pattern+" in scripts")
		if scripts.IsDenied(r.err) {
			need.err = r.err
		}
	}
	for _, channel := range needed.Channels {
		c.channel(ctx, n, kind, channel)
	}
	c.commands(ctx, n, kind, needed, raw)
}

// commands tries the commands of a kind's scripts. One call runs a script that tries all commands that leave nothing behind. Another call tries
// rpush, together with a command that removes the pushed element.
func (c *check) commands(ctx context.Context, n *needs, kind *scripts.Kind, needed scripts.Needs, raw string) {
	var names []string
	var words [][]any
	add := func(name string, call []any) { names, words = append(names, name), append(words, call) }
	for _, name := range needed.Commands {
		if name == "publish" {
			continue // the method channel tries it
		}
		if harmless := scripts.Harmless(name, raw, ""); harmless != nil {
			add(name, harmless)
		}
	}
	denied := c.denied(ctx, words)
	if slices.Contains(needed.Commands, "rpush") {
		names, denied = append(names, "rpush"), append(denied, c.rpush(ctx, raw, func(command string) bool {
			return !denied[slices.Index(names, command)].command // without a right to the key, rpush is refused as well, so it leaves nothing behind
		}))
	}
	for i, name := range names {
		need := n.add(kind, "+"+name, "call "+strings.ToUpper(name))
		if denied[i].command {
			need.err = denied[i].err
		}
	}
}

// errUntried is the refusal for a right that cannot be tried yet, because other rights are missing.
const errUntried = refusalOf("NOPERM it cannot be tried before the other rights are there")

// rpush tries RPUSH, the one command that leaves something behind. It does so only if DEL or LPOP, which remove that, may be called.
func (c *check) rpush(ctx context.Context, raw string, may func(command string) bool) denial {
	for _, takeAway := range []string{"del", "lpop"} {
		if may(takeAway) {
			return c.denied(ctx, [][]any{{"rpush", raw, "x"}, {takeAway, raw}})[0]
		}
	}
	return denial{command: true, err: errUntried}
}

// denial describes how the server refuses a command in a script.
type denial struct {
	command bool // true if the right to call the command is missing, false if only the right to its key or channel is
	channel bool
	err     error
}

// refusalOf is an error that a script returned as text.
type refusalOf string

func (e refusalOf) Error() string { return string(e) }

// RedisError marks the error as a reply of the server.
func (refusalOf) RedisError() {}

// denied runs the commands in a script, and returns a denial for each, with a nil err if the command was allowed. A command that fails for
// any reason but a missing right counts as allowed.
func (c *check) denied(ctx context.Context, words [][]any) []denial {
	denied := make([]denial, len(words))
	reply, err := c.call(ctx, scripts.CheckCommands(words))
	texts, _ := reply.([]any)
	if err != nil || len(texts) != len(words) {
		return denied
	}
	for i, text := range texts {
		if text, _ := text.(string); scripts.IsDenied(refusalOf(text)) {
			command := strings.Contains(text, "can't run this command") || strings.Contains(text, "permissions to run")
			denied[i] = denial{command: command, channel: !command && strings.Contains(text, "channel"), err: refusalOf(text)}
		}
	}
	return denied
}

// channel tries to publish on a channel and to subscribe to it. A channel without a kind belongs to the runtime, and is never sharded.
func (c *check) channel(ctx context.Context, n *needs, kind *scripts.Kind, channel string) {
	publish, subscribe, unsubscribe := "publish", "subscribe", "unsubscribe"
	sharded := kind != nil && c.Publish.IsSharded()
	if sharded {
		publish, subscribe, unsubscribe = "spublish", "ssubscribe", "sunsubscribe"
	}
	pattern := patternOf(channel)
	listen := n.add(kind, "&"+pattern, "use channels like "+pattern)
	tell := n.add(kind, "+"+publish, "call "+strings.ToUpper(publish))
	switch d := c.denied(ctx, [][]any{scripts.Harmless(publish, "", channel)})[0]; {
	case d.command:
		tell.err = d.err
	case d.channel:
		listen.err = d.err
	}
	if kind != nil && kind.Spins {
		return // the waiters of this kind poll, and subscribe to nothing
	}
	subscribing := n.add(kind, "+"+subscribe, "call "+strings.ToUpper(subscribe))
	unsubscribing := n.add(kind, "+"+unsubscribe, "call "+strings.ToUpper(unsubscribe))
	in, out := c.subscribe(ctx, channel, sharded)
	switch {
	case scripts.IsDenied(in) && tell.err != nil && strings.Contains(in.Error(), "permissions to run"):
		subscribing.err, listen.err = in, errUntried
	case scripts.IsDenied(in) && strings.Contains(in.Error(), "channel") && !strings.Contains(in.Error(), "permissions to run"):
		listen.err = in
	case scripts.IsDenied(in):
		subscribing.err = in
	}
	if scripts.IsDenied(out) {
		unsubscribing.err = out
	}
}

// subscribe subscribes to a channel and unsubscribes from it, and returns how each was refused.
func (c *check) subscribe(ctx context.Context, channel string, sharded bool) (in, out error) {
	_ = c.listen(ctx, channel, sharded, func(pubsub *redis.PubSub, refusal error) {
		in = refusal
		unsubscribe := pubsub.Unsubscribe
		if sharded {
			unsubscribe = pubsub.SUnsubscribe
		}
		if out = unsubscribe(ctx, channel); out == nil {
			_, out = pubsub.ReceiveTimeout(ctx, redisnode.ReplyWait)
		}
	})
	return in, out
}

// listen subscribes to a channel, and calls f with the answer of the server: a refusal, or nil. Without an answer it does not call f, and returns
// the reason.
func (c *check) listen(ctx context.Context, channel string, sharded bool, f func(pubsub *redis.PubSub, refusal error)) (err error) {
	defer redisnode.RecoverTo(&err)
	pubsub := c.node.Client.Subscribe(ctx) // no channel yet, so this sends nothing
	subscribe := pubsub.Subscribe
	if sharded {
		subscribe = pubsub.SSubscribe
	}
	if err = subscribe(ctx, channel); err == nil {
		_, err = pubsub.ReceiveTimeout(ctx, redisnode.ReplyWait)
	}
	if err == nil || scripts.IsDenied(err) {
		f(pubsub, err)
		err = nil
	}
	_ = pubsub.Close() // not deferred: if go-redis panics while it reconnects, a mutex that Close needs may stay locked; no connection is open then
	return err
}

// patternOf returns the pattern for all keys or channels like this one, which was made from a throw-away name.
func patternOf(key string) string {
	if before, _, found := strings.Cut(key, throwAwayMark); found {
		return before + "*"
	}
	return key // Options.NameMapper has changed the mark
}

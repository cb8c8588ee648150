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
	err   error // the refusal that shows that the right is missing; errUntried if the right could not be tried; nil in all other cases
}

// deniedBy notes that n, the right to call a command, is missing. It does nothing if d is about the right to a key or channel.
func (n *need) deniedBy(d denial) {
	if d.command {
		n.err = d.err
	}
}

// needs holds each right once, in the order in which the rights were added. It also holds the questions to the server. Their answers show which
// rights are missing. A check collects the questions about all kinds of locks and asks them together, so it needs few exchanges with the server.
type needs struct {
	list     []*need
	calls    []scripts.Call
	answers  []func(reply) // what to do with the reply to each call
	channels []subscription
	tried    []func(in, out error) // called for each channel; `in` is the refusal to subscribe, `out` the refusal to unsubscribe; nil if there was none
}

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

// command adds the right to call a command.
func (n *needs) command(kind *scripts.Kind, name string) *need {
	return n.add(kind, "+"+name, "call "+strings.ToUpper(name))
}

// rights tries each right that the runtime and these kinds of locks need. It tries each one separately, so that one missing right does not hide
// another. If scripts cannot be called, it tries only the commands that the runtime itself sends (see check.sent). It returns a finding for each
// right found missing.
func (c *check) rights(ctx context.Context, trials []trial) []finding {
	n := &needs{}
	if c.sent(ctx, n) {
		c.inScripts(ctx, n, trials)
	}
	var findings []finding
	for _, need := range n.list {
		if need.err == nil {
			continue
		}
		err := c.node.Errors.Explain(need.err)
		why := err.Error()
		switch {
		case len(need.kinds) > 1 && len(need.kinds) == len(trials):
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

// sent tries the commands that the runtime itself sends. It reports whether scripts can be called. If not, the other rights cannot be tried.
func (c *check) sent(ctx context.Context, n *needs) bool {
	none := scripts.CheckCommands(nil)
	rules, commands := []string{"ping", "time"}, [][]any{{"ping"}, {"time"}}
	try := func(rule string, words ...any) { rules, commands = append(rules, rule), append(commands, words) }
	if c.Publish.WasAsked() {
		try("pubsub|shardnumsub", "pubsub", "shardnumsub")
	}
	if !c.node.Standalone {
		try("asking", "asking")
	}
	if c.AckReplicas > 0 {
		try("wait", "wait", 0, 1)
	}
	try("script|load", "script", "load", none.Script.Source)
	try("evalsha", none.Command...)
	replies := c.send(ctx, commands...)
	for i, r := range replies {
		if scripts.IsDenied(r.err) {
			n.add(nil, "+"+rules[i], "call "+strings.ToUpper(strings.ReplaceAll(rules[i], "|", " "))).err = r.err
		}
	}
	loaded, called := replies[len(replies)-2].err, replies[len(replies)-1].err
	return loaded == nil && called == nil || redisnode.IsNoScript(called) && loaded == nil
}

// inScripts tries the keys, channels and commands that the scripts of all kinds use.
func (c *check) inScripts(ctx context.Context, n *needs, trials []trial) {
	for _, t := range trials {
		for _, key := range t.needed.Keys {
			n.key(t.kind, key)
		}
		for _, channel := range t.needed.Channels {
			n.channel(t.kind, channel, c.Publish.IsSharded())
		}
		n.commands(t)
	}
	if c.Linger {
		n.channel(nil, scripts.DemandChannel(throwAwayMark+c.NewName()), false)
	}
	c.askCalls(ctx, n)
	for _, t := range trials {
		n.rpush(t)
	}
	c.askCalls(ctx, n)
	c.askChannels(ctx, n)
}

// askCalls asks all questions that are script calls.
func (c *check) askCalls(ctx context.Context, n *needs) {
	for i, r := range c.calls(ctx, n.calls...) {
		n.answers[i](r)
	}
	n.calls, n.answers = nil, nil
}

// askChannels subscribes to all channels and unsubscribes from them.
func (c *check) askChannels(ctx context.Context, n *needs) {
	c.listen(ctx, n.channels, func(pubsub *redis.PubSub, in []error) {
		out, _ := eachChannel(ctx, pubsub, n.channels, pubsub.Unsubscribe, pubsub.SUnsubscribe)
		for i, tried := range n.tried {
			tried(in[i], out[i])
		}
	})
}

// key adds the right to use a key in a kind's scripts, and a question whose answer shows whether the user has that right.
func (n *needs) key(kind *scripts.Kind, key string) {
	pattern := patternOf(key)
	need := n.add(kind, "~"+pattern, "use keys like "+pattern+" in scripts")
	n.ask(scripts.CheckKey(key), func(r reply) {
		if scripts.IsDenied(r.err) {
			need.err = r.err
		}
	})
}

// commands adds the rights to call the commands of a kind's scripts, and the questions about them. The question about rpush is added later, by
// needs.rpush.
func (n *needs) commands(t trial) {
	for _, name := range t.needed.Commands {
		if name == "publish" {
			continue // the method needs.channel adds it
		}
		if harmless := scripts.Harmless(name, t.key, ""); harmless != nil {
			n.try(n.command(t.kind, name).deniedBy, harmless)
		}
	}
	if t.pushes() {
		n.command(t.kind, "rpush")
	}
}

// errUntried is the refusal for a right that cannot be tried yet, because other rights are missing.
const errUntried = refusalOf("NOPERM it cannot be tried before the other rights are there")

// pushes reports whether the scripts call RPUSH. Trying RPUSH adds an element to the key. Trying any other command changes nothing.
func (t trial) pushes() bool { return slices.Contains(t.needed.Commands, "rpush") }

// rpush adds the question about RPUSH, if the scripts call RPUSH. The question runs RPUSH, and then DEL or LPOP to remove what RPUSH has
// added. So the question is asked only if the user may call DEL or LPOP. If the right to the key is missing, the server refuses RPUSH, too, and there
// is nothing to remove.
func (n *needs) rpush(t trial) {
	if !t.pushes() {
		return
	}
	push := n.command(t.kind, "rpush")
	for _, takeAway := range []string{"del", "lpop"} {
		if n.command(t.kind, takeAway).err == nil {
			n.try(push.deniedBy, []any{"rpush", t.key, "x"}, []any{takeAway, t.key})
			return
		}
	}
	push.err = errUntried
}

// denial describes how the server refuses a command in a script.
type denial struct {
	command bool // true if the right to call the command is missing; false if the right to its key or channel is missing
	channel bool
	err     error
}

// refusalOf is an error that a script returned as text.
type refusalOf string

func (e refusalOf) Error() string { return string(e) }

// RedisError marks the error as a reply of the server.
func (refusalOf) RedisError() {}

// ask adds a question, and what to do with the answer.
func (n *needs) ask(call scripts.Call, answer func(reply)) {
	n.calls, n.answers = append(n.calls, call), append(n.answers, answer)
}

// try adds a question: a script that runs these commands. If the server denies the first command, denied is called. A command that fails for any
// reason but a missing right counts as allowed.
func (n *needs) try(denied func(denial), commands ...[]any) {
	n.ask(scripts.CheckCommands(commands), func(r reply) {
		texts, _ := r.value.([]any)
		if r.err != nil || len(texts) != len(commands) {
			return
		}
		if text, _ := texts[0].(string); scripts.IsDenied(refusalOf(text)) {
			command := strings.Contains(text, "can't run this command") || strings.Contains(text, "permissions to run")
			denied(denial{command: command, channel: !command && strings.Contains(text, "channel"), err: refusalOf(text)})
		}
	})
}

// channel adds the rights to publish on a channel and to subscribe to it, and the calls that find out whether the user has them. The kind is nil for
// a channel of the runtime itself.
func (n *needs) channel(kind *scripts.Kind, channel string, sharded bool) {
	publish, subscribe, unsubscribe := "publish", "subscribe", "unsubscribe"
	if sharded {
		publish, subscribe, unsubscribe = "spublish", "ssubscribe", "sunsubscribe"
	}
	pattern := patternOf(channel)
	listen := n.add(kind, "&"+pattern, "use channels like "+pattern)
	tell := n.command(kind, publish)
	n.try(func(d denial) {
		tell.deniedBy(d)
		if d.channel {
			listen.err = d.err
		}
	}, scripts.Harmless(publish, "", channel))
	if kind != nil && kind.Spins {
		return // the waiters of this kind poll, and subscribe to nothing
	}
	subscribing, unsubscribing := n.command(kind, subscribe), n.command(kind, unsubscribe)
	n.channels = append(n.channels, subscription{channel, sharded})
	n.tried = append(n.tried, func(in, out error) {
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
	})
}

// patternOf takes a key or channel that was made from a throw-away name. It returns the ACL pattern for the keys or channels that are made from
// other names in the same way.
func patternOf(key string) string {
	if before, _, found := strings.Cut(key, throwAwayMark); found {
		return before + "*"
	}
	return key // Options.NameMapper has changed the mark
}

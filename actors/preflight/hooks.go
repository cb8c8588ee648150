package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// hooks checks how the hooks of the user's client change the keys and channels in script calls. A hook may put the same prefix before every key,
// because scripts derive all further names from the keys in the call. Any other change of a key may give a lock two holders. Subscriptions do not
// pass through hooks. So if a hook renames a channel, releases are published on the new name, and nobody is subscribed to it.
func (c *check) hooks(ctx context.Context, trials []trial) []finding {
	var calls []scripts.Call
	for _, t := range trials {
		call := scripts.CheckKeys(t.needed.Keys)
		calls = append(calls, call, call) // sent twice, because the hooks must change the names in the same way each time
	}
	replies := c.calls(ctx, calls...)
	var changed []renaming
	for i, t := range trials {
		names, err := renamed(t.needed, replies[2*i:2*i+2])
		if err != nil {
			return append(c.unheard(ctx, changed), finding{rank: rankHook, cause: err, Finding: protocol.Finding{
				What: "a hook of the client renames the keys of scripts, and not all in the same way", Why: err.Error(),
				Remedy: "have the hook put one prefix before all keys of EVALSHA, or none and use Options.NameMapper",
			}})
		}
		for _, channel := range t.needed.Channels {
			if got := names[channel]; got != "" && got != channel && !t.kind.Spins {
				changed = append(changed, renaming{channel, got})
			}
		}
	}
	return c.unheard(ctx, changed)
}

// renamed returns a map from each key that was sent to the key that the server received. If scripts cannot work with the changed keys, it returns an
// error that shows how the hooks changed them. If the script call fails, both results are nil.
func renamed(needed scripts.Needs, replies []reply) (map[string]string, error) {
	renamed := map[string]string{}
	var prefix *string
	for _, r := range replies {
		names, _ := r.value.([]any)
		if r.err != nil || len(names) != len(needed.Keys) {
			return nil, nil //nolint:nilerr // the method check.scripts reports it
		}
		for i, key := range needed.Keys {
			got, _ := names[i].(string)
			before, alike := strings.CutSuffix(got, key)
			renamed[key] = got
			if slices.Contains(needed.Channels, key) {
				continue
			}
			if prefix == nil {
				prefix = &before
			}
			if !alike || before != *prefix {
				return nil, fmt.Errorf("%q becomes %q, others get the prefix %q", key, got, *prefix)
			}
		}
	}
	return renamed, nil
}

// renaming is a channel whose name a hook changes in script calls, and the new name.
type renaming struct{ channel, got string }

// unheard returns a finding for each renamed channel whose subscribers do not receive the messages that scripts publish.
func (c *check) unheard(ctx context.Context, changed []renaming) (findings []finding) {
	var channels []subscription
	var calls []scripts.Call
	for _, r := range changed {
		channels = append(channels, subscription{r.channel, c.Publish.IsSharded()})
		calls = append(calls, scripts.CheckPublish(c.Site, r.channel))
	}
	c.listen(ctx, channels, func(_ *redis.PubSub, refused []error) {
		for i, heard := range c.calls(ctx, calls...) {
			if refused[i] != nil || heard.err != nil || heard.value != int64(0) {
				continue
			}
			findings = append(findings, finding{rank: rankHook, Finding: protocol.Finding{
				What: "a hook of the client renames channels: releases wake no waiter",
				Why: fmt.Sprintf("releases are published on %q, waiters listen to %q, so they only retry once a second",
					changed[i].got, changed[i].channel),
				Remedy: "have the hook leave alone the keys of EVALSHA that are channels, or all and use Options.NameMapper",
			}})
		}
	})
	return findings
}

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

// hooks checks how the hooks of the user's client change the names of keys and channels that scripts get. The same prefix before every key does
// no harm, because scripts derive all names from those that they get. After any other change of a key, a lock may have two holders. Subscriptions
// do not pass through hooks, so if a channel is renamed, nobody is subscribed to the channel on which releases are published.
func (c *check) hooks(ctx context.Context, kinds []*scripts.Kind) (findings []finding) {
	for _, kind := range kinds {
		key, err := c.throwAway(kind)
		if err != nil || key == "" {
			continue // the method scripts reports it
		}
		needed := kind.Needs(c.Site, key, c.NewID)
		renamed, err := c.renamed(ctx, needed)
		if err != nil {
			return append(findings, finding{rank: rankHook, cause: err, Finding: protocol.Finding{
				What: "a hook of the client renames the keys of scripts, and not all in the same way", Why: err.Error(),
				Remedy: "have the hook put one prefix before all keys of EVALSHA, or none and use Options.NameMapper",
			}})
		}
		for _, channel := range needed.Channels {
			if got := renamed[channel]; got != "" && got != channel && !kind.Spins && c.unheard(ctx, channel) {
				findings = append(findings, finding{rank: rankHook, Finding: protocol.Finding{
					What:   "a hook of the client renames channels: releases wake no waiter",
					Why:    fmt.Sprintf("releases are published on %q, waiters listen to %q, so they only retry once a second", got, channel),
					Remedy: "have the hook leave alone the keys of EVALSHA that are channels, or all and use Options.NameMapper",
				}})
			}
		}
	}
	return findings
}

// renamed maps each key of a kind, as it was sent, to the key that the server received. An error means that scripts cannot work with the changed
// keys, and says how the hooks change them. The result is empty if scripts cannot be called at all.
func (c *check) renamed(ctx context.Context, needed scripts.Needs) (map[string]string, error) {
	renamed := map[string]string{}
	var prefix *string
	call := scripts.CheckKeys(needed.Keys)
	for _, r := range c.calls(ctx, call, call) { // sent twice, because the hooks must change the names in the same way each time
		names, _ := r.value.([]any)
		if r.err != nil || len(names) != len(needed.Keys) {
			return nil, nil //nolint:nilerr // the method scripts reports it
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

// unheard reports whether a subscriber of a channel misses what a script publishes on it.
func (c *check) unheard(ctx context.Context, channel string) (unheard bool) {
	_ = c.listen(ctx, channel, c.Publish.IsSharded(), func(_ *redis.PubSub, refusal error) {
		if refusal == nil {
			heard, err := c.call(ctx, scripts.CheckPublish(c.Site, channel))
			unheard = err == nil && heard == int64(0)
		}
	})
	return unheard
}

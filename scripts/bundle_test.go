package scripts_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/scripts"
)

// states are the states in which a call may find a lock, each with a function that creates it.
var states = map[string]func(b bed, raw string) error{
	"free":    func(bed, string) error { return nil },
	"late":    func(bed, string) error { return nil },
	"held":    func(b bed, raw string) error { return b.HSet(b.Context(), raw, us+":9", 1).Err() },
	"ours":    func(b bed, raw string) error { return b.HSet(b.Context(), raw, us+":1", 1).Err() },
	"foreign": func(b bed, raw string) error { return b.HSet(b.Context(), raw, "mode", "read").Err() },
	"typed":   func(b bed, raw string) error { return b.Set(b.Context(), raw, "text", 0).Err() },
}

// For each lock, a bundle does the same as a single call, and returns the same reply or error.
func TestBundle_DoesWhatItsCallsDo(t *testing.T) {
	acquireThenRelease := func(t *testing.T, kind *scripts.Kind) {
		on(t, func(b bed) {
			for _, op := range []func(*scripts.Site, string, scripts.Terms) scripts.Call{kind.Acquire, kind.Release} {
				var names []string
				var alone []scripts.Call
				var together []*scripts.Call
				for state, prepare := range states {
					names = append(names, state)
					for _, raw := range []string{b.name + ":alone:" + state, b.name + ":together:" + state} {
						require.NoError(b, prepare(b, raw))
						c := op(site, raw, scripts.Terms{Grant: us + ":1", Lease: time.Minute})
						if c.Bounded() {
							c.SetNotAfter(map[bool]int64{true: 1, false: 1 << 50}[state == "late"])
						}
						if len(alone) > len(together) {
							together = append(together, &c)
						} else {
							alone = append(alone, c)
						}
					}
				}
				reply, err := b.send(scripts.Bundle(together))
				require.NoError(b, err)
				replies, err := scripts.Unbundle(reply, len(together))
				require.NoError(b, err)
				for i, state := range names {
					b.sameReply(alone[i], replies[i], state)
					assert.Equal(b, b.Exists(b.Context(), alone[i].Key()).Val(), b.Exists(b.Context(), together[i].Key()).Val(), state)
					require.NoError(b, b.Del(b.Context(), alone[i].Key(), together[i].Key()).Err())
				}
			}
		})
	}
	for _, kind := range []*scripts.Kind{scripts.Lock, scripts.FencedLock} {
		t.Run(string(kind.Name), func(t *testing.T) { acquireThenRelease(t, kind) })
	}
}

// sameReply sends a call alone, and compares its reply with the reply to an equal call in a bundle.
func (b bed) sameReply(alone scripts.Call, got any, state string) {
	b.Helper()
	want, err := b.send(alone)
	gotErr, _ := got.(error)
	switch list, _ := want.([]any); {
	case err != nil:
		require.Error(b, gotErr, "%s: %v, not %v", state, got, err)
		assert.Equal(b, scripts.Classify(err), scripts.Classify(gotErr), "%s: %v, not %v", state, gotErr, err)
		assert.ErrorContains(b, err, scripts.Reply(gotErr)[:4], state)
	case want == nil:
		assert.Equal(b, redis.Nil, gotErr, state)
	case len(list) == 3: // with tokens
		assert.Equal(b, list[0], got.([]any)[0], state)
	default:
		assert.Equal(b, want, got, state)
	}
}

func TestUnbundle_NamesWhatItCannotRead(t *testing.T) {
	for _, reply := range []any{nil, "OK", int64(1), []any{"one"}} {
		_, err := scripts.Unbundle(reply, 2)
		assert.ErrorContains(t, err, "unexpected reply of the bundle script")
	}
	list, err := scripts.Unbundle([]any{"one", nil}, 2)
	require.NoError(t, err)
	assert.Equal(t, []any{"one", error(redis.Nil)}, list)
}

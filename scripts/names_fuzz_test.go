package scripts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	peer "github.com/holdfast-go/holdfast/internal/redissonpeer"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// odd are names that have caused trouble somewhere.
var odd = []string{
	"orders", "a{b}c", "{a}", "a{}b", "a{b", "x}y{z", "}{", "{a}{b}", "{{a}}", "", " ", "a\x00b", "ünï", "\xff", "a:b:timeout",
	"redisson_lock_queue:{orders}", "{orders}:timeout", strings.Repeat("x", 512), strings.Repeat("x", 513),
}

// All keys and channels of a valid name share one slot, except those of a latch whose name contains braces. Each key or channel is
// either one that Redisson uses as well, or has a prefix that only Holdfast uses.
func FuzzNames_KeepToOneSlot(f *testing.F) {
	for _, name := range odd {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if err := protocol.CheckName(name); err != nil {
			assert.ErrorIs(t, err, protocol.ErrInvalid)
			return
		}
		for _, kind := range allKinds {
			keys := keysOf(kind, name)
			for _, key := range keys {
				if a, b := scripts.Slot(name), scripts.Slot(key); a != b || tag(name) != tag(key) {
					t.Fatalf("%s: %q is in slot %d, %q in %d", kind.Name, name, a, key, b)
				}
			}
			ours := strings.HasPrefix
			keys = slices.DeleteFunc(keys, func(key string) bool {
				return ours(key, "holdfast_attempt:") || ours(key, "holdfast_want:") || ours(key, "holdfast_waiting:") ||
					key == inBraces(name)+":" // not a key, but the prefix of Redisson's timeout keys for readers
			})
			if want := redissons(kind, name); keys != nil && !slices.Equal(slices.Sorted(slices.Values(keys)), slices.Sorted(slices.Values(want))) {
				t.Fatalf("%s %q: keys %q, Redisson's are %q", kind.Name, name, keys, want)
			}
		}
	})
}

// redissons returns the keys and channels that the stand-in for Redisson uses for a name.
func redissons(kind *scripts.Kind, name string) []string {
	const grant = "5e0f:7" // the grant in keysOf
	switch kind {
	case scripts.FairLock:
		return []string{name, peer.Channel(name), peer.FairQueueKey(name), peer.FairTimeoutKey(name)}
	case scripts.FencedLock:
		return []string{name, peer.Channel(name), "redisson_lock_token:" + inBraces(name)}
	case scripts.ReadLock:
		return []string{name, peer.ReadWriteChannel(name), peer.ReadTimeoutKey(name, grant, 1)}
	case scripts.WriteLock:
		return []string{name, peer.ReadWriteChannel(name)}
	case scripts.Semaphore:
		return []string{name, peer.SemaphoreChannel(name)}
	case scripts.PermitSemaphore:
		return []string{name, peer.SemaphoreChannel(name), peer.PermitsKey(name)}
	case scripts.CountDownLatch:
		return []string{name, peer.LatchChannel(name)}
	}
	return []string{name, peer.Channel(name)}
}

// Two names share no key, with two exceptions that come from Redisson. First, x and {x} have the same hash tag, so only the keys of the locks
// themselves differ, and all further keys are the same. Second, a name may look like the key of another lock, but
// only if the name has braces.
func FuzzNames_OfTwoLocksDoNotMeet(f *testing.F) {
	for i, name := range odd {
		f.Add(name, odd[(i+1)%len(odd)])
		f.Add(name, "redisson_lock_token:{"+name+"}")
		f.Add(name, "{"+name+"}:timeout")
		f.Add(name, name+":timeout")
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		if protocol.CheckName(one) != nil || protocol.CheckName(other) != nil || inBraces(one) == inBraces(other) || likeAKey(one) || likeAKey(other) {
			return
		}
		theirs := map[string]bool{}
		for _, kind := range allKinds {
			for _, key := range keysOf(kind, other) {
				theirs[key] = true
			}
		}
		for _, kind := range allKinds {
			for _, key := range keysOf(kind, one) {
				if theirs[key] {
					t.Fatalf("%q and %q share %q", one, other, key)
				}
			}
		}
	})
}

func inBraces(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// likeAKey reports whether a name looks like a key that belongs to another name.
func likeAKey(name string) bool {
	return strings.Contains(name, "{") && (strings.HasPrefix(name, "redisson_") || strings.HasPrefix(name, "holdfast_") ||
		strings.HasSuffix(name, ":timeout") || strings.HasSuffix(name, ":") || strings.HasSuffix(name, ":rwlock_timeout:1"))
}

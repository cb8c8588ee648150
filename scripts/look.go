package scripts

import (
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The functions below recognize keys, values and channels of locks by their bytes alone. Their patterns must agree with those in the Lua
// includes, scripts/lib/*.lua.

const uuidShape = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`

var (
	ownerShape  = regexp.MustCompile(`^(` + uuidShape + `):-?[0-9]{1,19}(:write)?$`)
	countShape  = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	readerShape = regexp.MustCompile(`:` + uuidShape + `:-?[0-9]+(:write)?:rwlock_timeout:[0-9]+$`)
	tailShape   = regexp.MustCompile(`:` + uuidShape + `:-?[0-9]{1,19}$|:crowd:[0-9]{1,19}$`)
)

// IsOwner reports whether a field names a holder or a waiter of Redisson or Holdfast. The field of a writer ends in ":write".
func IsOwner(field string) (runtime string, writer, ok bool) {
	found := ownerShape.FindStringSubmatch(field)
	if found == nil {
		return "", false, false
	}
	return found[1], found[2] != "", true
}

// MaxCount is the length of the longest number that scripts accept as a count, in characters including the sign.
const MaxCount = 15

// ReadCount reads the number of a semaphore or latch.
func ReadCount(value string) (n int64, ok bool) {
	if len(value) > MaxCount || !countShape.MatchString(value) {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}

// ReadHolds reads a holder's number of holds.
func ReadHolds(value string) (n int, ok bool) {
	count, ok := ReadCount(value)
	return int(count), ok && count > 0
}

// foreverScore is the least score of a permit that never expires; Redisson writes 922337203685477.
const foreverScore = 9e14

// HeldPermit is one permit that is held.
type HeldPermit struct {
	ID   string        // as in Lease.ID
	Left time.Duration // remaining lease; negative if the permit never expires
}

// ReadPermit reads a member of PermitsKey and its score. The parameter `now` is the server's time. The result `held` is false if the permit's lease
// and its grace (see permitGrace) have ended. The result `ok` is false if the member is not a permit.
func ReadPermit(member string, score float64, now time.Duration) (p HeldPermit, held, ok bool) {
	if len(member) != 16 {
		return p, false, false
	}
	p.ID = hex.EncodeToString([]byte(member))
	if score >= foreverScore {
		p.Left = -1
		return p, true, true
	}
	till := time.Duration(score) * time.Millisecond // when the lease ends, or for a Holdfast permit, when its grace ends
	if strings.HasPrefix(member, permitMark) {
		till -= permitGrace
	}
	p.Left = max(till-now, 0)
	return p, till+permitGrace > now, true
}

// sidePrefixes are the prefixes of keys other than a lock's own key: further keys of locks, and the keys of elections and processes.
var sidePrefixes = []string{
	"redisson_lock_queue:", "redisson_lock_timeout:", "redisson_lock_token:", "redisson_unlock_latch:", lockChannels,
	"holdfast_attempt:", "holdfast_want:", "holdfast_waiting:", "holdfast_process:", leaderChannels,
}

// IsSideKey reports whether a key belongs to a lock, election or process but is not a lock's own key. It does not recognize a PermitsKey.
func IsSideKey(key string) bool {
	for _, prefix := range sidePrefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return readerShape.MatchString(key)
}

// ChannelPattern is a pattern that matches the channels of all locks.
const ChannelPattern = "redisson_*"

// RawNames returns the names, after Options.NameMapper, of the locks that may use this channel. If the channel does not belong to a lock, RawNames
// returns no name. If the name in the channel is "{x}", RawNames returns two names, "x" and "{x}", because these two locks have the same channels
// (unless they are latches).
func RawNames(channel string) []string {
	if name, ok := strings.CutPrefix(channel, latchChannels); ok {
		if inner, ok := unbraced(name); ok {
			return []string{inner}
		}
		return nil
	}
	for _, prefix := range []string{readWriteChannels, semaphoreChannels} {
		if rest, ok := strings.CutPrefix(channel, prefix); ok {
			return rawNames(rest)
		}
	}
	rest, ok := strings.CutPrefix(channel, lockChannels)
	if !ok {
		return nil
	}
	if at := tailShape.FindStringIndex(rest); at != nil { // the channel of a fair lock's waiter, or of a row of a crowd
		rest = rest[:at[0]]
	}
	return rawNames(rest)
}

// rawNames returns the names that the function tagged turns into `rest`.
func rawNames(rest string) (names []string) {
	if inner, ok := unbraced(rest); ok && !strings.Contains(inner, "{") {
		names = append(names, inner)
	}
	if strings.Contains(rest, "{") {
		names = append(names, rest)
	}
	return names
}

func unbraced(s string) (inner string, ok bool) {
	s, opened := strings.CutPrefix(s, "{")
	s, closed := strings.CutSuffix(s, "}")
	return s, opened && closed && s != ""
}

// ReadToken reads the last token that was issued, from TokenKey.
func ReadToken(value string) (token int64, ok bool) {
	if strings.HasPrefix(value, "-") || !countShape.MatchString(value) {
		return 0, false
	}
	token, err := strconv.ParseInt(value, 10, 64)
	return token, err == nil
}

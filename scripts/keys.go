package scripts

import (
	"slices"
	"strconv"
	"strings"
)

// The functions below return the names of keys and channels. If Redisson has a key or channel for the same purpose, the function returns
// Redisson's name. The parameter raw is the name of the lock after Options.NameMapper.

// The beginnings of the names of channels, up to the name of the lock.
const (
	lockChannels      = "redisson_lock__channel:"
	readWriteChannels = "redisson_rwlock:"
	semaphoreChannels = "redisson_sc:"
	latchChannels     = "redisson_countdownlatch__channel__"
	leaderChannels    = "holdfast_leader:"
)

// IsChannel reports whether a key of a script is a channel.
func IsChannel(key string) bool {
	return slices.ContainsFunc([]string{lockChannels, readWriteChannels, semaphoreChannels, latchChannels, leaderChannels},
		func(beginning string) bool { return strings.HasPrefix(key, beginning) })
}

// LockChannel is the channel on which releases of an exclusive lock are published.
func LockChannel(raw string) string { return lockChannels + tagged(raw) }

// WaiterChannel is the channel on which a waiter of a fair lock learns that it is next.
func WaiterChannel(raw, owner string) string { return LockChannel(raw) + ":" + owner }

// CrowdKey is the key with the tickets of the processes that wait for a lock (lib/crowd.lua). The parameter `channel` is the lock's LockChannel.
func CrowdKey(channel string) string { return channel + ":crowd" }

// RowChannel is the channel on which a row of waiting processes is called (lib/crowd.lua). The parameter `channel` is the lock's LockChannel.
func RowChannel(channel string, row int64) string {
	return CrowdKey(channel) + ":" + strconv.FormatInt(row, 10)
}

// RowPattern is a pattern that matches the channels of all rows of a lock. The parameter `channel` is the lock's LockChannel.
func RowPattern(channel string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(CrowdKey(channel)) + ":*"
}

// HasRows reports whether a crowd may wait for the releases on this channel.
func HasRows(channel string) bool { return strings.HasPrefix(channel, lockChannels) }

// An acquire may put one of these marks in front of the channel in its argument `report` (lib/crowd.lua).
const (
	HasTicket = "+" // the process has a ticket, which the acquire removes if it gets the lock
	Yields    = "-" // the process has just had the lock. If other processes wait, this one takes a ticket, even if the lock is free
)

// CrowdLeast is a number of subscribers to a lock's releases. If there are fewer, no process waits for the call of its row (lib/crowd.lua).
const CrowdLeast = 8

// ReadWriteChannel is the channel on which releases of a read/write lock are published.
func ReadWriteChannel(raw string) string { return readWriteChannels + tagged(raw) }

// ReadTimeouts is the prefix of the timeout keys of all readers.
func ReadTimeouts(raw string) string { return tagged(raw) + ":" }

// readTimeoutKey is the key that exists until a reader's lease ends. Each Holdfast grant has one hold, so the hold's number is 1.
func readTimeoutKey(raw, grant string) string { return ReadTimeoutKey(raw, grant, 1) }

// ReadTimeoutKey is the key that exists until the lease of a reader's hold ends. The holds of a reader are numbered from 1.
func ReadTimeoutKey(raw, grant string, hold int) string {
	return ReadTimeouts(raw) + grant + ":rwlock_timeout:" + strconv.Itoa(hold)
}

// SemaphoreChannel is the channel on which freed permits are published.
func SemaphoreChannel(raw string) string { return semaphoreChannels + tagged(raw) }

// PermitsKey is the key with the permits that are held.
func PermitsKey(raw string) string { return tagged(raw) + ":timeout" }

// QueueKey is the key with the waiters of a fair lock.
func QueueKey(raw string) string { return prefixed("redisson_lock_queue", raw) }

func timeoutKey(raw string) string { return prefixed("redisson_lock_timeout", raw) }

// TokenKey is the key with the last token of a fenced lock. It outlives the lock.
func TokenKey(raw string) string { return prefixed("redisson_lock_token", raw) }

// waitingKey is a key that only Holdfast uses. It maps each runtime that has waiters to the time until which the runtime is known to live.
func waitingKey(raw string) string { return prefixed("holdfast_waiting", raw) }

// DemandChannel is the channel on which a runtime that may keep released locks learns which of them are wanted.
// Scripts do not get it as a key, because on a cluster it is in another slot than the lock. For the same reason its messages are not sharded.
func DemandChannel(runtime string) string { return "holdfast_demand:" + runtime }

// ReadDemand reads a message of a DemandChannel. The result `grant` is the grant that holds the wanted lock, and `key` is the lock's key in Redis.
// If `freed` is true, a force-release has just ended that grant.
func ReadDemand(message string) (grant, key string, freed bool) {
	message, freed = strings.CutPrefix(message, "freed ")
	grant, key, _ = strings.Cut(message, " ")
	return grant, key, freed
}

// LatchChannel is the channel on which a message is published when a latch reaches zero, is set or is deleted. Redisson puts braces around the
// latch's name in the channel's name, even if the latch's name already has braces.
func LatchChannel(raw string) string { return latchChannels + "{" + raw + "}" }

// Only Holdfast uses the keys below. Each has a TTL.

// AttemptKey is the key with the result of a request to a kind that counts, such as a semaphore. A retry of the request returns this result.
func AttemptKey(raw, request string) string {
	return prefixed("holdfast_attempt", raw) + ":" + request
}

// WantKey is the key with the reservation of a semaphore. A runtime makes a reservation for a waiter that wants several permits.
func WantKey(raw string) string { return prefixed("holdfast_want", raw) }

// ProcessesKey is the key of the list of all runtimes that have announced their processes. On a cluster it is in the same slot as every ProcessKey.
const ProcessesKey = "holdfast_process:{all}"

// ProcessKey is the key with the announcement of this runtime's process.
func ProcessKey(runtime string) string { return ProcessesKey + ":" + runtime }

// prefixed returns Redisson's "prefix name".
func prefixed(prefix, raw string) string { return prefix + ":" + tagged(raw) }

// tagged makes the lock's name the hash tag, unless the name contains a brace. The result followed by a suffix is Redisson's "suffix name".
func tagged(raw string) string {
	if strings.Contains(raw, "{") {
		return raw
	}
	return "{" + raw + "}"
}

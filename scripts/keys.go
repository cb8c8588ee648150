package scripts

import (
	"strconv"
	"strings"
)

// Every key and channel name of the runtime, in Redisson's layout. raw is the name after Options.NameMapper.

// LockChannel is the channel on which releases of an exclusive lock are published.
func LockChannel(raw string) string { return prefixed("redisson_lock__channel", raw) }

// WaiterChannel is the channel on which a waiter of a fair lock is notified that it is next.
func WaiterChannel(raw, owner string) string { return LockChannel(raw) + ":" + owner }

// ReadWriteChannel is the channel on which releases of a read/write lock are published.
func ReadWriteChannel(raw string) string { return prefixed("redisson_rwlock", raw) }

// ReadTimeouts is the prefix of the timeout keys of all readers.
func ReadTimeouts(raw string) string { return suffixed(raw) + ":" }

// readTimeoutKey lives as long as a reader's lease. Each Holdfast grant has one hold, so the number is 1.
func readTimeoutKey(raw, grant string) string { return ReadTimeoutKey(raw, grant, 1) }

// ReadTimeoutKey lives as long as the lease of a reader's hold with this number, counted from 1.
func ReadTimeoutKey(raw, grant string, hold int) string {
	return ReadTimeouts(raw) + grant + ":rwlock_timeout:" + strconv.Itoa(hold)
}

// SemaphoreChannel is the channel on which freed permits are published.
func SemaphoreChannel(raw string) string { return prefixed("redisson_sc", raw) }

// PermitsKey has the permits that are held.
func PermitsKey(raw string) string { return suffixed(raw) + ":timeout" }

// QueueKey has the waiters of a fair lock.
func QueueKey(raw string) string { return prefixed("redisson_lock_queue", raw) }

func timeoutKey(raw string) string { return prefixed("redisson_lock_timeout", raw) }

// TokenKey has the last token of a fenced lock, and outlives the lock.
func TokenKey(raw string) string { return prefixed("redisson_lock_token", raw) }

// waitingKey is Holdfast's own: which runtimes with waiters are known to live.
func waitingKey(raw string) string { return prefixed("holdfast_waiting", raw) }

// suffixed is Redisson's "suffix name", up to the suffix.
func suffixed(raw string) string {
	if strings.Contains(raw, "{") {
		return raw
	}
	return "{" + raw + "}"
}

// DemandChannel is the channel on which a runtime that may keep released locks learns which of them are wanted.
// The script does not get it as a key, because on a cluster it is in another slot than the lock; the messages are plain for that reason.
func DemandChannel(runtime string) string { return "holdfast_demand:" + runtime }

// ReadDemand reads a message of a DemandChannel: the key of the lock that is wanted as the server knows it, and the grant that holds it, or
// that was just released by force.
func ReadDemand(message string) (grant, key string, freed bool) {
	message, freed = strings.CutPrefix(message, "freed ")
	grant, key, _ = strings.Cut(message, " ")
	return grant, key, freed
}

// LatchChannel is the channel on which a latch's zero is published. Redisson puts braces around the name here even if it has its
// own.
func LatchChannel(raw string) string { return "redisson_countdownlatch__channel__{" + raw + "}" }

// Keys of Holdfast only; each has a TTL.

// AttemptKey keeps the result of a request without an owner, for its retries.
func AttemptKey(raw, request string) string {
	return prefixed("holdfast_attempt", raw) + ":" + request
}

// WantKey names the runtime that has reserved a semaphore for a waiter for several permits.
func WantKey(raw string) string { return prefixed("holdfast_want", raw) }

// ProcessesKey has the runtimes whose processes are announced. It is in the same part of a cluster as every ProcessKey.
const ProcessesKey = "holdfast_process:{all}"

// ProcessKey has the announcement of the process with this runtime.
func ProcessKey(runtime string) string { return ProcessesKey + ":" + runtime }

// prefixed is Redisson's "prefix name": the lock's name becomes the hash tag unless it contains one.
func prefixed(prefix, raw string) string {
	if strings.Contains(raw, "{") {
		return prefix + ":" + raw
	}
	return prefix + ":{" + raw + "}"
}

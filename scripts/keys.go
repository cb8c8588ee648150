package scripts

import "strings"

// Every key and channel name of the runtime, in Redisson's layout. raw is the name after Options.NameMapper.

// LockChannel is the channel on which releases of an exclusive lock are published.
func LockChannel(raw string) string { return prefixed("redisson_lock__channel", raw) }

// WaiterChannel is the channel on which a waiter of a fair lock is notified that it is next.
func WaiterChannel(raw, owner string) string { return LockChannel(raw) + ":" + owner }

// ReadWriteChannel is the channel on which releases of a read/write lock are published.
func ReadWriteChannel(raw string) string { return prefixed("redisson_rwlock", raw) }

// readTimeouts is the prefix of the timeout keys of all readers.
func readTimeouts(raw string) string { return suffixed(raw) + ":" }

// readTimeoutKey lives as long as a reader's lease. Each Holdfast grant has one hold, so the number is 1.
func readTimeoutKey(raw, grant string) string {
	return readTimeouts(raw) + grant + ":rwlock_timeout:1"
}

// SemaphoreChannel is the channel on which freed permits are published.
func SemaphoreChannel(raw string) string { return prefixed("redisson_sc", raw) }

// permitsKey has the permits that are held.
func permitsKey(raw string) string { return suffixed(raw) + ":timeout" }

func queueKey(raw string) string   { return prefixed("redisson_lock_queue", raw) }
func timeoutKey(raw string) string { return prefixed("redisson_lock_timeout", raw) }

func tokenKey(raw string) string { return prefixed("redisson_lock_token", raw) }

// waitingKey is Holdfast's own: which runtimes with waiters are known to live.
func waitingKey(raw string) string { return prefixed("holdfast_waiting", raw) }

// suffixed is Redisson's "suffix name", up to the suffix.
func suffixed(raw string) string {
	if strings.Contains(raw, "{") {
		return raw
	}
	return "{" + raw + "}"
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

// prefixed is Redisson's "prefix name": the lock's name becomes the hash tag unless it contains one.
func prefixed(prefix, raw string) string {
	if strings.Contains(raw, "{") {
		return prefix + ":" + raw
	}
	return prefix + ":{" + raw + "}"
}

package scripts

import "strings"

// Every key and channel name of the runtime, in Redisson's layout. raw is the name after Options.NameMapper.

// LockChannel is where releases of an exclusive lock are told.
func LockChannel(raw string) string { return prefixed("redisson_lock__channel", raw) }

// WaiterChannel is where one waiter of a fair lock is told that it is the next.
func WaiterChannel(raw, owner string) string { return LockChannel(raw) + ":" + owner }

// ReadWriteChannel is where releases of a read/write lock are told.
func ReadWriteChannel(raw string) string { return prefixed("redisson_rwlock", raw) }

// readTimeouts is what the timeout keys of all readers begin with.
func readTimeouts(raw string) string { return suffixed(raw) + ":" }

// readTimeoutKey lives as long as a reader's lease. Ours count once, so it is the first.
func readTimeoutKey(raw, grant string) string {
	return readTimeouts(raw) + grant + ":rwlock_timeout:1"
}

// SemaphoreChannel is where permits are told of that have come free.
func SemaphoreChannel(raw string) string { return prefixed("redisson_sc", raw) }

// permitsKey has the permits that are out.
func permitsKey(raw string) string { return suffixed(raw) + ":timeout" }

func queueKey(raw string) string   { return prefixed("redisson_lock_queue", raw) }
func timeoutKey(raw string) string { return prefixed("redisson_lock_timeout", raw) }

func tokenKey(raw string) string { return prefixed("redisson_lock_token", raw) }

// waitingKey is our own: which runtimes with waiters are known to live.
func waitingKey(raw string) string { return prefixed("holdfast_waiting", raw) }

// suffixed is Redisson's "suffix name", up to the suffix.
func suffixed(raw string) string {
	if strings.Contains(raw, "{") {
		return raw
	}
	return "{" + raw + "}"
}

// LatchChannel is where a latch's zero is told. Redisson puts braces around the name here even if it has its own.
func LatchChannel(raw string) string { return "redisson_countdownlatch__channel__{" + raw + "}" }

// Keys of our own; each has a TTL.

// AttemptKey keeps the result of a request that has no owner, for its repeats.
func AttemptKey(raw, request string) string {
	return prefixed("holdfast_attempt", raw) + ":" + request
}

// WantKey is the runtime that has reserved a semaphore for a waiter for several permits.
func WantKey(raw string) string { return prefixed("holdfast_want", raw) }

// prefixed is Redisson's "prefix name": the lock's name becomes the hash tag unless it brings one along.
func prefixed(prefix, raw string) string {
	if strings.Contains(raw, "{") {
		return prefix + ":" + raw
	}
	return prefix + ":{" + raw + "}"
}

package redissonpeer

import (
	"strconv"
	"strings"
)

// Channel is the channel on which the release of the lock is published.
func Channel(name string) string { return prefixed("redisson_lock__channel", name) }

// LatchKey is the key that keeps the result of one release request.
func LatchKey(name, requestID string) string {
	return prefixed("redisson_unlock_latch", name) + ":" + requestID
}

// ReadWriteChannel is the channel on which releases of both halves of a read/write lock are published.
func ReadWriteChannel(name string) string { return prefixed("redisson_rwlock", name) }

// ReadTimeoutKey is the key that exists for as long as the lease of a reader's n-th hold lasts.
func ReadTimeoutKey(name, owner string, n int) string {
	return readTimeouts(name, owner) + ":" + strconv.Itoa(n)
}

func readTimeouts(name, owner string) string { return suffixed(name, owner+":rwlock_timeout") }

// PermitsKey is the sorted set of the permits that are held, with the times at which they expire.
func PermitsKey(name string) string { return suffixed(name, "timeout") }

// SemaphoreChannel is the channel on which free permits of the semaphore are published.
func SemaphoreChannel(name string) string { return prefixed("redisson_sc", name) }

// LatchChannel is the channel for the message that the count of the latch is zero. The name is always in braces.
func LatchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// prefixed derives a name that is in the same cluster slot as name. A name that contains a brace is assumed to have its
// own hash tag.
func prefixed(prefix, name string) string {
	return prefix + ":" + slot(name)
}

// suffixed is like prefixed, with the addition at the end.
func suffixed(name, suffix string) string { return slot(name) + ":" + suffix }

func slot(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

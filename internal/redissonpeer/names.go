package redissonpeer

import "strings"

// Channel is the channel on which the release of the lock is published.
func Channel(name string) string { return prefixed("redisson_lock__channel", name) }

// LatchKey is the key that keeps the result of one release request.
func LatchKey(name, requestID string) string {
	return prefixed("redisson_unlock_latch", name) + ":" + requestID
}

// SemaphoreChannel is the channel on which permits of the semaphore are published.
func SemaphoreChannel(name string) string { return prefixed("redisson_sc", name) }

// LatchChannel is the channel on which the zero of the latch is published; always with braces.
func LatchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// prefixed derives a name that lies in the same cluster slot. A name with a brace in it is taken to have a
// hash tag of its own.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

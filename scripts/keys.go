package scripts

import "strings"

// Every key and channel name of the runtime, in Redisson's layout. raw is the name after Options.NameMapper.

// LockChannel is where releases of an exclusive lock are told.
func LockChannel(raw string) string { return prefixed("redisson_lock__channel", raw) }

// prefixed is Redisson's "prefix name": the lock's name becomes the hash tag unless it brings one along.
func prefixed(prefix, raw string) string {
	if strings.Contains(raw, "{") {
		return prefix + ":" + raw
	}
	return prefix + ":{" + raw + "}"
}

package peer

var redissonPeer = &Peer{
	Name: "redisson",
	About: "Redisson 4.7.0 in one JVM with as many Redisson clients as the workload has processes; getLock, getFairLock, " +
		"getReadWriteLock, getSemaphore; default configuration for a single server",
	Source: "Redisson's documentation",
	Role:   Library,
	Kinds:  everyKind,
	Renews: true,
	Needs:  "redisson",
	Keys:   sameKey,
}

package peer

var redissonPeer = &Peer{
	Name: "redisson",
	About: "Redisson 4.7.0 in one JVM with as many Redisson clients as the workload has processes; getLock, getFairLock, " +
		"getReadWriteLock, getSemaphore, lock() with the watchdog; default configuration for a single server, but with four threads for " +
		"each client where there are several. The JVM lives through the whole run, so that its code is compiled",
	Source: "Redisson's documentation",
	Role:   Library,
	Kinds:  everyKind,
	Renews: true,
	Needs:  "redisson",
	Keys:   sameKey,
}

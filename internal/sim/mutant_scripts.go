package sim

// exclusive lists the kinds with one holder that use the scripts of a plain lock, as far as the mutants change them.
var exclusive = []kind{plainLock, fencedLock, spinLock}

// lingers lists the kinds whose locks may linger.
var lingers = []kind{plainLock, fencedLock, readWrite}

// ScriptMutants are the broken scripts.
var ScriptMutants = []Mutant{
	script("release without a look at the owner", "who was late frees the next holder's lock", exclusive,
		"if redis.call('hdel', lock, grant) == 0 then return nil end", "redis.call('del', lock)"),
	script("renewal without a look at the owner", "who has lost a lock keeps the next holder's alive, and takes it for his own",
		[]kind{plainLock, fencedLock},
		"local held = redis.pcall('hexists', lock, ARGV[i + 2])", "local held = 1"),
	needs("kill", script("no TTL", "what a process has that dies, it has for ever", nil,
		"if type(redis.pcall('pexpire', lock, lease)) == 'table' then", "if false then")),
	script("half the lease", "the server ends a lease before its holder does", nil,
		"redis.pcall('pexpire', lock, lease)", "redis.pcall('pexpire', lock, math.floor(lease / 2))"),
	script("renewal that renews nothing", "a lease ends that its holder takes for renewed", exclusive,
		"if held == 1 then\n    redis.call('pexpire', lock, lease)", "if held == 1 then\n    local nothing"),
	script("token repeated", "two holders have the same token", []kind{fencedLock},
		"local last = math.max(least, t[1] * 1000000 + t[2], floor)", "local last = 1000000; least = 1"),
	script("held lock given away", "one acquire in 16 overwrites the holder", exclusive,
		"if ttl ~= -2 then\n  local holder",
		"if ttl >= 0 and ttl % 16 == 0 then\n  redis.call('del', lock)\n  ttl = -2\nend\nif ttl ~= -2 then\n  local holder"),
	script("lock that ends soon given away", "an acquire takes what has less than 150 ms left", exclusive,
		"if ttl ~= -2 then\n  local holder",
		"if ttl >= 0 and ttl <= 150 then\n  redis.call('del', lock)\n  ttl = -2\nend\nif ttl ~= -2 then\n  local holder"),
	needs("stuck", script("late execution", "an acquire is executed after its caller has given it up, and nobody releases it", nil,
		"if server_time > tonumber(not_after) then", "if false then")),
	script("release without a message", "nobody is told that a lock is free", []kind{plainLock, fencedLock},
		"== 0 then return nil end\nreturn redis.call(publish, channel, '0')", "== 0 then return nil end\nreturn 0"),
	script("kept lock that is free", "a lock that is to stay taken is free when it is released", []kind{plainLock, fencedLock},
		"begin_lease(lock, keep)\nreturn", "redis.call('del', lock)\nreturn"),
	script("fair lock without its queue", "who asks at the right moment goes before all who wait", []kind{fairLock},
		"if ttl == -2 and (not head or head == grant) then", "if ttl == -2 then"),
	script("fair lock without a look at the holder", "the first in the queue takes the lock from its holder", []kind{fairLock},
		"if ttl == -2 and (not head or head == grant) then", "if not head or head == grant then"),
	script("reader beside a writer", "a reader does not see the writer", []kind{readWrite},
		"if mode == 'write' and not held and redis.call('hexists', lock, writer) == 0 then", "if false then"),
	script("writer beside readers", "a writer does not see readers", []kind{readWrite},
		"if mode and redis.call('hexists', lock, grant) == 0 then", "if mode == 'write' and redis.call('hexists', lock, grant) == 0 then"),
	script("first reader ends all", "the lock is free while others read", []kind{readWrite},
		"if left > 0 then\n  redis.call('pexpire', lock, left)\n  return -1\nend", ""),
	script("one permit too many", "one more holds a permit than there are", []kind{permits},
		"if (free or 0) > 0 then", "if (free or 0) >= 0 then"),
	needs("kill", script("permits of the dead", "a permit whose holder has died never comes back", []kind{permits},
		"if #gone == 0 then return free, first end", "if true then return free, first end")),
	needs("lose reply", script("repeated permit counts twice", "a repeat after a lost reply takes another permit", []kind{permits},
		"local score = redis.call('zscore', timeouts, permit)\nif score then", "local score = redis.call('zscore', timeouts, permit)\nif false then")),
	needs("lose reply", script("repeated take counts twice", "a repeat after a lost reply takes more of a semaphore", []kind{semaphore},
		"if before then", "if false then")),
	script("semaphore without a message", "nobody is told that permits are back", []kind{semaphore},
		"    redis.call(publish, channel, result)", "    local nobody"),
	needs("lose reply", script("repeated count-down counts twice", "a repeat after a lost reply counts down again", []kind{latch},
		"if not result then", "if true then")),
	script("refusal without a demand", "a process that keeps a lock that nobody uses is not told who wants it", lingers,
		"if runtime then redis.pcall('publish'", "if false then redis.pcall('publish'"),
	script("latch without a message", "nobody is told that a latch is at zero", []kind{latch},
		"if count > 0 then redis.call(publish, channel, '0') end", ""),
}

func script(name, breaks string, kinds []kind, old, replacement string) Mutant {
	return Mutant{Name: name, Breaks: breaks, kinds: kinds, scripts: []edit{{"", old, replacement}}}
}

package sim

// exclusive lists the kinds whose scripts contain the text that a mutant of the plain lock replaces.
var exclusive = []kind{plainLock, fencedLock, spinLock}

// lingers lists the kinds whose locks may linger.
var lingers = []kind{plainLock, fencedLock, readWrite}

// ScriptMutants are the broken scripts.
var ScriptMutants = []Mutant{
	script("release without an owner check", "a late release frees the lock of the next holder", exclusive,
		"if redis.call('hdel', lock, grant) == 0 then return nil end", "redis.call('del', lock)"),
	script("renewal without an owner check", "a process that has lost a lock renews the next holder's grant, and takes it for its own",
		[]kind{plainLock, fencedLock},
		"local held = redis.pcall('hexists', lock, ARGV[i + 2])", "local held = 1"),
	needs("kill", script("no TTL", "the locks of a dead process are never freed", nil,
		"if type(redis.pcall('pexpire', lock, lease)) == 'table' then", "if false then")),
	script("half the lease", "the lease expires in Redis before it expires for its holder", nil,
		"redis.pcall('pexpire', lock, lease)", "redis.pcall('pexpire', lock, math.floor(lease / 2))"),
	script("renewal without effect", "a lease expires that its holder believes renewed", exclusive,
		"if held == 1 then\n    redis.call('pexpire', lock, lease)", "if held == 1 then\n    local nothing"),
	script("token repeated", "two holders get the same fencing token", []kind{fencedLock},
		"local last = math.max(least, t[1] * 1000000 + t[2], min_token)", "local last = 1000000; least = 1"),
	script("held lock given away", "one acquire in 16 overwrites the holder", exclusive,
		"if ttl ~= -2 then\n  local holder",
		"if ttl >= 0 and ttl % 16 == 0 then\n  redis.call('del', lock)\n  ttl = -2\nend\nif ttl ~= -2 then\n  local holder"),
	script("expiring lock given away", "an acquire takes a lock that has less than 150 ms left", exclusive,
		"if ttl ~= -2 then\n  local holder",
		"if ttl >= 0 and ttl <= 150 then\n  redis.call('del', lock)\n  ttl = -2\nend\nif ttl ~= -2 then\n  local holder"),
	needs("stuck", script("late execution", "an acquire is executed after its caller has given up, and nobody releases the lock", nil,
		"if server_time > tonumber(not_after) then", "if false then")),
	script("release without a message", "a release notifies no waiter", []kind{plainLock, fencedLock},
		"== 0 then return nil end\nreturn redis.call(publish, channel, '0')", "== 0 then return nil end\nreturn 0"),
	script("at-least cut short", "a release frees a lock whose at-least time is not over", []kind{plainLock, fencedLock},
		"begin_lease(lock, keep)\nreturn", "redis.call('del', lock)\nreturn"),
	script("fair lock without its queue", "an acquire at the right moment overtakes the queue", []kind{fairLock},
		"if ttl == -2 and (not head or head == grant) then", "if ttl == -2 then"),
	script("fair lock without a holder check", "the first in the queue takes the lock from its holder", []kind{fairLock},
		"if ttl == -2 and (not head or head == grant) then", "if not head or head == grant then"),
	script("reader beside a writer", "a reader acquires the lock while a writer has it", []kind{readWrite},
		"if mode == 'write' and not held and redis.call('hexists', lock, writer) == 0 then", "if false then"),
	script("writer beside readers", "a writer acquires the lock while readers have it", []kind{readWrite},
		"if mode and redis.call('hexists', lock, grant) == 0 then", "if mode == 'write' and redis.call('hexists', lock, grant) == 0 then"),
	script("first reader frees all", "the release of one reader frees the lock of all readers", []kind{readWrite},
		"if left > 0 then\n  redis.call('pexpire', lock, left)\n  return -1\nend", ""),
	script("one permit too many", "one more permit is held than there are", []kind{permits},
		"if (free or 0) > 0 then", "if (free or 0) >= 0 then"),
	needs("kill", script("permits of the dead", "the permit of a dead process is never freed", []kind{permits},
		"if #gone == 0 then return free, first end", "if true then return free, first end")),
	needs("lose reply", script("repeated permit counts twice", "a retry after a lost reply takes a second permit", []kind{permits},
		"local score = redis.call('zscore', timeouts, permit)\nif score then", "local score = redis.call('zscore', timeouts, permit)\nif false then")),
	script("passed permit that stays", "a permit that is passed on also stays with its old holder", []kind{permits},
		"if not there then redis.call('zrem', timeouts, old) end", ""),
	needs("lose reply", script("repeated take counts twice", "a retry after a lost reply takes permits of a semaphore twice", []kind{semaphore},
		"if before then", "if false then")),
	script("semaphore without a message", "a release of permits notifies no waiter", []kind{semaphore},
		"    redis.pcall(publish, channel, result)", "    local nobody"),
	needs("lose reply", script("repeated count-down counts twice", "a retry after a lost reply counts down twice", []kind{latch},
		"if not result then", "if true then")),
	script("refusal without a demand", "a lingering process is not notified that another process wants the lock", lingers,
		"if runtime then redis.pcall('publish'", "if false then redis.pcall('publish'"),
	script("latch without a message", "a latch that reaches zero notifies no waiter", []kind{latch},
		"if count > 0 then redis.pcall(publish, channel, '0') end", ""),
}

func script(name, breaks string, kinds []kind, old, replacement string) Mutant {
	return Mutant{Name: name, Breaks: breaks, kinds: kinds, scripts: []edit{{"", old, replacement}}}
}

-- lock_release: free the lock if this grant holds it, and wake the waiters. A retry changes nothing. HDEL is used
-- instead of HINCRBY, because HDEL needs no memory and thus works at maxmemory. Redis deletes a hash when its last field is deleted.
--
-- KEYS[1] lock    hash     {name}
-- KEYS[2] channel channel  redisson_lock__channel:{name}
-- ARGV[1] grant   owner field, runtimeUUID:number
-- ARGV[2] publish PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were notified | nil (this grant does not hold the lock)
local lock, channel = KEYS[1], KEYS[2]
local grant, publish = ARGV[1], ARGV[2]

if redis.call('hdel', lock, grant) == 0 then return nil end
return redis.call(publish, channel, '0')

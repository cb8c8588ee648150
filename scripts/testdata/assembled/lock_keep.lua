-- lock_keep: end a hold whose lock is to stay taken for a while: its TTL becomes what is missing. The waiters are woken to learn the
-- new TTL, because no message is sent when a key expires. A retry sets the TTL again.
--
-- KEYS[1] lock    hash     {name}
-- KEYS[2] channel channel  redisson_lock__channel:{name}
-- ARGV[1] grant   owner field, runtimeUUID:number
-- ARGV[2] publish PUBLISH or SPUBLISH
-- ARGV[3] keep    ms
--
-- Returns the number of subscribers that were notified | nil (this grant does not hold the lock)
local lock, channel = KEYS[1], KEYS[2]
local grant, publish, keep = ARGV[1], ARGV[2], ARGV[3]

if redis.call('hexists', lock, grant) == 0 then return nil end
redis.call('pexpire', lock, keep)
return redis.call(publish, channel, '0')

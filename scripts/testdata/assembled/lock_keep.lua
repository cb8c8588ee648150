-- lock_keep: end a grant, but keep the lock taken for a while. The owner field of the grant is replaced by a field that no grant has, so a
-- late renewal or acquire of the grant changes nothing. The TTL of the lock becomes `keep`. The waiters are woken so that they learn the new
-- TTL, because no message is sent when a key expires. A retry changes nothing. At maxmemory, Redis refuses a write that needs memory, unless
-- the script has already made another write. So HDEL comes first: it needs no memory.
--
-- KEYS[1] lock    hash     {name}
-- KEYS[2] channel channel  redisson_lock__channel:{name}
-- ARGV[1] grant   owner field, runtimeUUID:number
-- ARGV[2] publish PUBLISH or SPUBLISH
-- ARGV[3] keep    ms
-- ARGV[4] nobody  owner field, runtimeUUID:-number
--
-- Returns the number of subscribers that were notified | nil (this grant does not hold the lock)
local lock, channel = KEYS[1], KEYS[2]
local grant, publish, keep, nobody = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- begin_lease: set the TTL of a lock that this script has just taken. If Redis refuses that, for example because the user lacks the right
-- to PEXPIRE, delete the lock and fail with the same refusal: Redis does not roll the script back, and the lock would never expire.
local function begin_lease(lock, lease)
  if type(redis.pcall('pexpire', lock, lease)) == 'table' then
    redis.call('del', lock)
    redis.call('pexpire', lock, lease)
  end
end

if redis.call('hdel', lock, grant) == 0 then return nil end
redis.call('hset', lock, nobody, 1)
begin_lease(lock, keep)
return redis.call(publish, channel, '0')

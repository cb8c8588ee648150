-- write_release: end the writer's hold and wake all who wait. If the same owner reads, the lock goes on as a read lock. A repeat
-- changes nothing. HDEL comes first: it grows no memory, so unlocking works at maxmemory.
--
-- KEYS[1] lock    hash     {name}, with mode
-- KEYS[2] channel channel  redisson_rwlock:{name}
-- ARGV[1] grant   owner field, runtimeUUID:number:write
-- ARGV[2] publish PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were told | nil (this grant does not hold the lock)
local lock, channel = KEYS[1], KEYS[2]
local grant, publish = ARGV[1], ARGV[2]

if redis.call('hexists', lock, grant) == 0 then return nil end
redis.call('hdel', lock, grant)
if redis.call('hlen', lock) == 1 then
  redis.call('del', lock)
else
  redis.call('hset', lock, 'mode', 'read')
end
return redis.call(publish, channel, '1')

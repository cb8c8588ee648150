-- write_release: end the writer's hold and wake all who wait. If the same owner reads, the lock goes on as a read lock, for as long
-- as its reader does. A repeat changes nothing. HDEL comes first: it grows no memory, so unlocking works at maxmemory.
--
-- KEYS[1] lock    hash     {name}, with mode
-- KEYS[2] channel channel  redisson_rwlock:{name}
-- ARGV[1] grant   owner field, runtimeUUID:number:write
-- ARGV[2] publish PUBLISH or SPUBLISH
-- ARGV[3] prefix  {name}, with which the readers' timeout keys begin
--
-- Returns the number of subscribers that were told | nil (this grant does not hold the lock)
local lock, channel = KEYS[1], KEYS[2]
local grant, publish, prefix = ARGV[1], ARGV[2], ARGV[3]
-- @include lib/longest.lua

if redis.call('hexists', lock, grant) == 0 then return nil end
local left = longest(lock, prefix, grant)
redis.call('hdel', lock, grant)
if left > 0 then
  redis.call('hset', lock, 'mode', 'read')
  redis.call('pexpire', lock, left)
else
  redis.call('del', lock)
end
return redis.call(publish, channel, '1')

-- read_release: end one reader's hold, and free the lock after the last that lives, waking the waiters. A repeat changes nothing.
--
-- KEYS[1] lock    hash     {name}, with mode
-- KEYS[2] channel channel  redisson_rwlock:{name}
-- KEYS[3] timeout string   {name}:grant:rwlock_timeout:1
-- ARGV[1] grant   owner field, runtimeUUID:number
-- ARGV[2] publish PUBLISH or SPUBLISH
-- ARGV[3] prefix  {name}, with which the other readers' timeout keys begin
--
-- Returns the number of subscribers that were told | -1 (others hold it still: nobody was told) | nil (this grant does not hold the lock)
local lock, channel, timeout = KEYS[1], KEYS[2], KEYS[3]
local grant, publish, prefix = ARGV[1], ARGV[2], ARGV[3]
-- @include lib/longest.lua

if redis.call('hexists', lock, grant) == 0 then return nil end
local alone = redis.call('hget', lock, 'mode') == 'write' -- the same owner goes on as a writer
local left = longest(lock, prefix, grant)
redis.call('hdel', lock, grant)
redis.call('del', timeout)
if alone then return -1 end
if left > 0 then
  redis.call('pexpire', lock, left)
  return -1
end
redis.call('del', lock)
return redis.call(publish, channel, '0')

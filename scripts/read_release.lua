-- read_release: end one reader's hold, and free the lock after the last that lives, waking the waiters. A repeat changes nothing.
--
-- KEYS[1] lock     hash     {name}, with mode
-- KEYS[2] channel  channel  redisson_rwlock:{name}
-- KEYS[3] timeout  string   {name}:grant:rwlock_timeout:1
-- KEYS[4] timeouts string   {name}: what the timeout keys of all readers begin with; no such key exists
-- ARGV[1] grant    owner field, runtimeUUID:number
-- ARGV[2] publish  PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were told | -1 (others hold it still: nobody was told) | nil (this grant does not hold the lock)
local lock, channel, timeout, timeouts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local grant, publish = ARGV[1], ARGV[2]
-- @include lib/timeouts.lua

if redis.call('hexists', lock, grant) == 0 then return nil end
local alone = redis.call('hget', lock, 'mode') == 'write' -- the same owner goes on as a writer
local own = redis.call('pttl', timeout) -- before the other one: should time pass in between, it is the longer
local left, others = redis.call('pttl', lock), redis.call('hlen', lock) > 2
if not others or left <= own + 100 then left = longest(lock, timeouts, grant) end -- else the longest is another's
redis.call('hdel', lock, grant)
redis.call('del', timeout)
if alone then return -1 end
if left > 0 then
  redis.call('pexpire', lock, left)
  return -1
end
redis.call('del', lock)
return redis.call(publish, channel, '0')

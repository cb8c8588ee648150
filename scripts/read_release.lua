-- read_release: end one reader's hold. If no other grant holds the lock, free the lock and wake the waiters. Readers whose leases have
-- expired do not count. A retry changes nothing.
--
-- KEYS[1] lock     hash     {name}, with mode
-- KEYS[2] channel  channel  redisson_rwlock:{name}
-- KEYS[3] timeout  string   {name}:grant:rwlock_timeout:1
-- KEYS[4] timeouts prefix   {name}:, the beginning of the names of all timeout keys; not itself a key
-- ARGV[1] grant    owner field, runtimeUUID:number
-- ARGV[2] publish  PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were notified | -1 (another grant still holds the lock: no message) |
-- nil (this grant does not hold the lock)
local lock, channel, timeout, timeouts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local grant, publish = ARGV[1], ARGV[2]
-- @include lib/timeouts.lua

if redis.call('hexists', lock, grant) == 0 then return nil end
local alone = redis.call('hget', lock, 'mode') == 'write' -- the same owner still holds the write lock
local own = redis.call('pttl', timeout) -- read before `left`, so `own` is too long by the time between the two reads
local left, others = redis.call('pttl', lock), redis.call('hlen', lock) > 2
if not others or left <= own + 100 then left = longest(lock, timeouts, grant) end -- otherwise the lock's TTL is another reader's lease
redis.call('del', timeout) -- before HDEL: without the right to DEL, the script must fail before it can leave a mode without a holder
redis.call('hdel', lock, grant)
if alone then return -1 end
if left > 0 then
  redis.call('pexpire', lock, left)
  return -1
end
redis.call('del', lock)
return redis.call(publish, channel, '0')

-- write_release: end the writer's hold and wake all waiters. If the same owner also holds the read lock, the lock becomes a read lock until that
-- hold ends. A retry changes nothing. The first write is DEL or HDEL, which need no memory, so unlocking works at maxmemory.
--
-- If `keep` is not 0, the write lock stays taken, with `nobody` as its holder (see lock_keep). It stays taken for `keep` ms, or longer if
-- a read lease of the same owner ends later.
--
-- KEYS[1] lock     hash     {name}, with mode
-- KEYS[2] channel  channel  redisson_rwlock:{name}
-- KEYS[3] timeouts prefix   {name}:, the beginning of the names of all timeout keys; not itself a key
-- ARGV[1] grant    owner field, runtimeUUID:number:write
-- ARGV[2] publish  PUBLISH or SPUBLISH
-- ARGV[3] keep     ms for which the lock stays taken | 0
-- ARGV[4] nobody   owner field that replaces `grant` if the lock stays taken, runtimeUUID:-number:write
--
-- Returns the number of subscribers that were notified | nil (this grant does not hold the lock)
local lock, channel, timeouts = KEYS[1], KEYS[2], KEYS[3]
local grant, publish, keep, nobody = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
-- @include lib/timeouts.lua

if redis.call('hexists', lock, grant) == 0 then return nil end
local left = longest(lock, timeouts, grant)
if keep == 0 and left == 0 then
  redis.call('del', lock) -- without HDEL: if the user lacks the right to DEL, HDEL would leave a mode without a holder, which is no lock
else
  redis.call('hdel', lock, grant)
  if keep > 0 then
    redis.call('hset', lock, nobody, 1)
  else
    redis.call('hset', lock, 'mode', 'read')
  end
  redis.call('pexpire', lock, math.max(keep, left))
end
return redis.call(publish, channel, '1')

-- lock_pass: pass the lock from one grant to the next of the same process, with a fresh lease. If the turn ends and another process
-- waits, free the lock instead. A retry finds the new grant in place and restarts its lease.
--
-- KEYS[1] lock      hash    {name}
-- KEYS[2] channel   channel redisson_lock__channel:{name}
-- ARGV[1] from      owner field of the grant that ends
-- ARGV[2] grant     owner field of the grant that begins
-- ARGV[3] lease     ms
-- ARGV[4] not_after server time in ms, after which the attempt is refused
-- ARGV[5] publish   PUBLISH or SPUBLISH
-- ARGV[6] idlers    -1 if the turn continues. If the turn ends: how many subscribers do not want the lock (this process, and others that only listen)
--
-- Returns grant (passed) | number of subscribers that were notified (the lock is free for them) | nil (neither grant holds the lock) |
-- error LATE ms
local lock, channel = KEYS[1], KEYS[2]
local from, grant, lease, not_after, publish, idlers = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- @include lib/in_time.lua
-- @include lib/end_turn.lua

local late = in_time(not_after)
if late then return late end
if redis.call('hexists', lock, grant) == 0 then
  if redis.call('hexists', lock, from) == 0 then return nil end
  local told = end_turn(lock, from, channel, publish, idlers)
  if told then return told end
  redis.call('hset', lock, grant, 1)
  redis.call('hdel', lock, from)
elseif redis.call('pttl', lock) >= tonumber(lease) then
  return grant -- a delayed duplicate must not shorten a lease that was prolonged since
end
redis.call('pexpire', lock, lease)
return grant

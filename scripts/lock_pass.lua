-- lock_pass: hand the lock from one grant to the next one of the same process, with a fresh lease; at the end of a turn only if
-- nobody else waits. A repeat finds the new grant in place and begins its lease anew.
--
-- KEYS[1] lock      hash    {name}
-- KEYS[2] channel   channel redisson_lock__channel:{name}
-- ARGV[1] from      owner field of the grant that ends
-- ARGV[2] grant     owner field of the grant that begins
-- ARGV[3] lease     ms
-- ARGV[4] not_after ms of server time; later, the attempt is refused
-- ARGV[5] publish   PUBLISH or SPUBLISH
-- ARGV[6] idlers    -1: the turn goes on | it ends, and so many of the channel's subscribers want nothing: ourselves, and mere listeners
--
-- Returns grant (passed) | number of subscribers that were told (it is free, for them) | nil (neither grant holds the lock) |
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
  return grant -- a late copy must not shorten what was prolonged since
end
redis.call('pexpire', lock, lease)
return grant

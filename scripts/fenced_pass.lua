-- fenced_pass: hand the lock from one grant to the next one of the same process, with a fresh lease and new tokens; at the end of a
-- turn only if nobody else waits. A repeat finds the new grant in place and begins its lease anew.
--
-- KEYS[1] lock      hash    {name}
-- KEYS[2] counter   string  redisson_lock_token:{name}
-- KEYS[3] channel   channel redisson_lock__channel:{name}
-- ARGV[1] from      owner field of the grant that ends
-- ARGV[2] grant     owner field of the grant that begins
-- ARGV[3] lease     ms
-- ARGV[4] not_after ms of server time; later, the attempt is refused
-- ARGV[5] publish   PUBLISH or SPUBLISH
-- ARGV[6] idlers    -1: the turn goes on | it ends, and so many of the channel's subscribers want nothing: ourselves, and mere listeners
-- ARGV[7] tokens    how many
-- ARGV[8] floor     us of server time that tokens follow at least; 0: this server's alone
--
-- Returns {grant, first, last} (passed) | number of subscribers that were told (it is free, for them) |
-- nil (neither grant holds the lock) | error LATE ms | error FOREIGN text
local lock, counter, channel = KEYS[1], KEYS[2], KEYS[3]
local from, grant, lease, not_after, publish, idlers = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local tokens, floor = ARGV[7], ARGV[8]
-- @include lib/in_time.lua
-- @include lib/end_turn.lua
-- @include lib/tokens.lua

local late = in_time(not_after)
if late then return late end
local passed = redis.call('hexists', lock, grant) == 1
if not passed then
  if redis.call('hexists', lock, from) == 0 then return nil end
  local told = end_turn(lock, from, channel, publish, idlers)
  if told then return told end
end
local first, last, foreign = take_tokens(counter, tonumber(tokens), tonumber(floor))
if foreign then return foreign end
if not passed then
  redis.call('hset', lock, grant, 1)
  redis.call('hdel', lock, from)
end
if not passed or redis.call('pttl', lock) < tonumber(lease) then -- a late copy must not shorten what was prolonged since
  redis.call('pexpire', lock, lease)
end
return {grant, first, last}

-- fenced_pass: pass the lock from one grant of this process to the next, with a fresh lease and new tokens. If the turn ends and another
-- process waits, free the lock instead. If the new grant already holds the lock, this is a retry: issue new tokens and restart the lease.
--
-- KEYS[1] lock      hash    {name}
-- KEYS[2] counter   string  redisson_lock_token:{name}
-- KEYS[3] channel   channel redisson_lock__channel:{name}
-- ARGV[1] from      owner field of the grant that ends
-- ARGV[2] grant     owner field of the grant that begins
-- ARGV[3] lease     ms
-- ARGV[4] not_after server time in ms, after which the attempt is refused
-- ARGV[5] publish   PUBLISH or SPUBLISH
-- ARGV[6] idlers    -1 if the turn continues; otherwise the number of subscribers that do not want the lock: this process and others that only listen
-- ARGV[7] tokens    largest number of tokens to take
-- ARGV[8] min_token the caller's estimate of the server time in us, or 0. The last token is not smaller than min_token
--
-- Returns {grant, first, last} (passed) | number of subscribers that were notified (the lock is free for them) |
-- nil (neither grant holds the lock) | error LATE ms | error FOREIGN text
local lock, counter, channel = KEYS[1], KEYS[2], KEYS[3]
local from, grant, lease, not_after, publish, idlers = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local tokens, min_token = ARGV[7], ARGV[8]
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
local first, last, foreign = take_tokens(counter, tonumber(tokens), tonumber(min_token))
if foreign then return foreign end
if not passed then
  redis.call('hset', lock, grant, 1)
  redis.call('hdel', lock, from)
end
if not passed or redis.call('pttl', lock) < tonumber(lease) then -- a delayed duplicate must not shorten a lease that was prolonged since
  redis.call('pexpire', lock, lease)
end
return {grant, first, last}

-- fenced_pass: hand the lock from one grant to the next one of the same process, with a fresh lease, new tokens and without a
-- wake-up. A repeat finds the new grant in place and begins its lease anew.
--
-- KEYS[1] lock      hash    {name}
-- KEYS[2] counter   string  redisson_lock_token:{name}
-- ARGV[1] from      owner field of the grant that ends
-- ARGV[2] grant     owner field of the grant that begins
-- ARGV[3] lease     ms
-- ARGV[4] not_after ms of server time; later, the attempt is refused
-- ARGV[5] tokens    how many
--
-- Returns {grant, first, last} (passed) | nil (neither grant holds the lock) | error LATE ms
local lock, counter = KEYS[1], KEYS[2]
local from, grant, lease, not_after, tokens = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- @include lib/in_time.lua
-- @include lib/tokens.lua

local late = in_time(not_after)
if late then return late end
local passed = redis.call('hexists', lock, grant) == 1
if not passed and redis.call('hexists', lock, from) == 0 then return nil end
local first, last = take_tokens(counter, tonumber(tokens))
if not passed then
  redis.call('hset', lock, grant, 1)
  redis.call('hdel', lock, from)
end
if not passed or redis.call('pttl', lock) < tonumber(lease) then -- a late copy must not shorten what was prolonged since
  redis.call('pexpire', lock, lease)
end
return {grant, first, last}

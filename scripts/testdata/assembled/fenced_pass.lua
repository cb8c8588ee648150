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
-- in_time: nil while server time has not passed not_after (ms), else the error reply LATE with the server time in ms.
-- A copy of an attempt that was held up somewhere must not run after its caller stopped counting on it.
local server_time
local function in_time(not_after)
  if not server_time then -- a script is one instant, also for many locks
    local t = redis.call('time')
    server_time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if server_time > tonumber(not_after) then
    return redis.error_reply('LATE ' .. string.format('%.0f', server_time))
  end
  return nil
end
-- tokens: take a block of n fencing tokens, {first, last}. They follow the server's clock in microseconds, so they increase over a
-- restart without persistence and over a failover that lost the counter, and they continue from what Redisson's INCR has left.
-- A counter that is not as large as a clock is new, or was lost just now: the block that was taken then may reach up to the present,
-- so that one before it would give tokens again. There is only one token then, which is the present.
local function take_tokens(counter, n)
  local t = redis.call('time')
  local least = tonumber(redis.call('get', counter) or '0') + 1
  local last = math.max(least, t[1] * 1000000 + t[2])
  local first = math.max(least, last - n + 1)
  if least < 1e14 then first = last end
  redis.call('set', counter, string.format('%.0f', last))
  return string.format('%.0f', first), string.format('%.0f', last)
end

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

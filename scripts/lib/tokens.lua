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

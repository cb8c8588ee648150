-- tokens: take a block of n fencing tokens, {first, last}. They follow the server's clock in microseconds, so they increase over a
-- restart without persistence and over a failover that lost the counter, and they continue from what Redisson's INCR has left.
local function take_tokens(counter, n)
  local t = redis.call('time')
  local least = tonumber(redis.call('get', counter) or '0') + 1
  local last = math.max(least, t[1] * 1000000 + t[2])
  local first = math.max(least, last - n + 1)
  redis.call('set', counter, string.format('%.0f', last))
  return string.format('%.0f', first), string.format('%.0f', last)
end

-- tokens: take a block of n fencing tokens: first, last; or nil, nil and the error reply FOREIGN. They follow the server's clock in
-- microseconds, so they increase over a restart without persistence and over a failover that lost the counter, and they continue from
-- what Redisson's INCR has left. After a failover to a server whose clock is behind they follow its predecessor's for a while: floor is
-- that clock, in microseconds, as the caller knows it, or 0. Lua's numbers are exact below 2^53: what is not there, or no number, is left alone, for a token that
-- is rounded may have been given before.
-- A counter that is not as large as a clock is new, or was lost just now: the block that was taken then may reach up to the present,
-- so that one before it would give tokens again. There is only one token then, which is the present.
local function take_tokens(counter, n, floor)
  local given = redis.call('get', counter) or '0'
  if given ~= '0' and not string.find(given, '^[1-9]%d*$') or #given > 16 then
    return nil, nil, redis.error_reply('FOREIGN ' .. counter .. ' holds something that is no fencing token')
  end
  local t = redis.call('time')
  local least = tonumber(given) + 1
  local last = math.max(least, t[1] * 1000000 + t[2], floor)
  if last >= 2 ^ 53 then
    return nil, nil, redis.error_reply('FOREIGN no token is left, ' .. counter .. ' holds ' .. given .. ' and the largest is 2^53 - 1')
  end
  local first = math.max(least, last - n + 1)
  if least < 1e14 then first = last end
  redis.call('set', counter, string.format('%.0f', last))
  return string.format('%.0f', first), string.format('%.0f', last)
end

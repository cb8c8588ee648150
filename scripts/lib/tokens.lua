-- take_tokens takes a block of at most n fencing tokens, and returns the first and the last one. If the counter does not hold a token, take_tokens
-- returns nil, nil and the error reply FOREIGN.
--
-- Tokens follow the server's clock in microseconds. So they increase even if Redis restarts without persistence, or a failover loses the counter. A
-- token is always larger than the value of the counter, which Redisson's INCR may have written. After a failover, the clock of the new server may be
-- behind the old server's clock. For that case, min_token is a lower bound: the caller's estimate of the old server's clock in microseconds, or 0.
--
-- Lua's numbers are exact only below 2^53. A larger counter would be rounded, and take_tokens could issue a token twice. So take_tokens refuses such
-- a counter and leaves it unchanged. It does the same with a counter that is not a number.
--
-- If the counter is far below any present time, the counter is new, or its former value was lost. In the second case, tokens up to nearly the present
-- time may have been issued before the loss. A block of several tokens ends at the present time and begins earlier, so it could repeat some of them.
-- So take_tokens then takes only one token: the present time, or min_token if that is later.
local function take_tokens(counter, n, min_token)
  local given = redis.pcall('get', counter) or '0'
  if type(given) == 'table' then
    if not string.find(given.err, 'WRONGTYPE', 1, true) then return nil, nil, given end
    given = ''
  end
  if given ~= '0' and not string.find(given, '^[1-9]%d*$') or #given > 16 then
    return nil, nil, redis.error_reply('FOREIGN ' .. counter .. ' holds something that is no fencing token')
  end
  local t = redis.call('time')
  local least = tonumber(given) + 1
  local last = math.max(least, t[1] * 1000000 + t[2], min_token)
  if last >= 2 ^ 53 then
    return nil, nil, redis.error_reply('FOREIGN no token is left, ' .. counter .. ' holds ' .. given .. ' and the largest is 2^53 - 1')
  end
  local first = math.max(least, last - n + 1)
  if least < 1e14 then first = last end
  redis.call('set', counter, string.format('%.0f', last))
  return string.format('%.0f', first), string.format('%.0f', last)
end

-- take_tokens takes a block of at most n fencing tokens, and returns the first and the last one. If the counter holds something else, it returns
-- nil, nil and the error reply FOREIGN.
--
-- Tokens follow the server's clock in microseconds, so they increase across a restart without persistence and a failover that lost the
-- counter. They continue from the value that Redisson's INCR has left. After a failover to a server whose clock is behind, they
-- continue from the old server's clock: min_token is that clock in microseconds as the caller knows it, or 0. Lua's numbers are exact
-- below 2^53. A larger counter would be rounded, and could issue a token twice. So it is left unchanged, as is one that is not a
-- number.
--
-- A counter far below the clock is new, or the old counter was lost. The last block before the loss may have reached up to the present time. A
-- new block that began before the present time could issue some of these tokens again. So only one token is taken: the present time.
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

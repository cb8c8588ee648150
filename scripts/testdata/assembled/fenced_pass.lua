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
-- in_time returns nil until the server time has passed not_after (ms), and after that the error reply LATE with the server time in ms. A
-- delayed duplicate of an attempt must not run after its caller has given the attempt up.
local server_time
local function in_time(not_after)
  if not server_time then -- time stands still during a script, even one for many locks
    local t = redis.call('time')
    server_time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if server_time > tonumber(not_after) then
    return redis.error_reply('LATE ' .. string.format('%.0f', server_time))
  end
  return nil
end
-- end_turn: let waiters of other processes acquire the lock at the end of a turn. The argument `idlers` is the number of subscribers that do not want
-- the lock, or '-1' if the turn continues. If the turn continues, end_turn does nothing. At the end of a turn, end_turn publishes the message of a
-- release. If more than `idlers` subscribers receive the message, another process waits: end_turn releases the lock and returns the number of
-- receivers. If no other process waits, end_turn returns nil. The grant then still holds the lock and can pass it on.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end
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

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
-- end_turn: others go first when a process has had its turn. All who listen are told of a release, and if they are more than the
-- idlers, it is one: returns how many were told. Else the lock is still there, to be handed on. idlers '-1': it is no turn's end.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end
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

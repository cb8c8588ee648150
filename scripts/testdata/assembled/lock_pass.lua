-- lock_pass: pass the lock from one grant to the next of the same process, with a fresh lease. If the turn ends and another process
-- waits, free the lock instead. A retry finds the new grant in place and restarts its lease.
--
-- KEYS[1] lock      hash    {name}
-- KEYS[2] channel   channel redisson_lock__channel:{name}
-- ARGV[1] from      owner field of the grant that ends
-- ARGV[2] grant     owner field of the grant that begins
-- ARGV[3] lease     ms
-- ARGV[4] not_after server time in ms, after which the attempt is refused
-- ARGV[5] publish   PUBLISH or SPUBLISH
-- ARGV[6] idlers    -1 if the turn continues. If the turn ends: how many subscribers do not want the lock (this process, and others that only listen)
--
-- Returns grant (passed) | number of subscribers that were notified (the lock is free for them) | nil (neither grant holds the lock) |
-- error LATE ms
local lock, channel = KEYS[1], KEYS[2]
local from, grant, lease, not_after, publish, idlers = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
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

local late = in_time(not_after)
if late then return late end
if redis.call('hexists', lock, grant) == 0 then
  if redis.call('hexists', lock, from) == 0 then return nil end
  local told = end_turn(lock, from, channel, publish, idlers)
  if told then return told end
  redis.call('hset', lock, grant, 1)
  redis.call('hdel', lock, from)
elseif redis.call('pttl', lock) >= tonumber(lease) then
  return grant -- a delayed duplicate must not shorten a lease that was prolonged since
end
redis.call('pexpire', lock, lease)
return grant

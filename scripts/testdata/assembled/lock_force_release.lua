-- lock_force_release: free the lock whoever holds it, and wake the waiters. Not repeatable: a repeat could hit the next holder,
-- so a copy that comes late is refused and an unknown outcome is reported as such.
--
-- KEYS[1] lock      hash     {name}
-- KEYS[2] channel   channel  redisson_lock__channel:{name}
-- ARGV[1] publish   PUBLISH or SPUBLISH
-- ARGV[2] not_after ms of server time; later, the attempt is refused
--
-- Returns 1 (it was held) | 0 (it was free) | error LATE ms | error FOREIGN text
local lock, channel = KEYS[1], KEYS[2]
local publish, not_after = ARGV[1], ARGV[2]
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
-- foreign_hash: the error of a hash that is no lock: every field of a lock counts holds. Nobody's data is deleted for a lock.
local function foreign_hash(lock)
  local fields = redis.call('hgetall', lock)
  for i = 2, #fields, 2 do
    if not tonumber(fields[i]) then return redis.error_reply('FOREIGN the key holds a hash that is no lock') end
  end
  return nil
end

local late = in_time(not_after)
if late then return late end
if redis.call('exists', lock) == 0 then return 0 end
if redis.call('hexists', lock, 'mode') == 1 then
  return redis.error_reply('FOREIGN the key holds a read/write lock')
end
local foreign = foreign_hash(lock)
if foreign then return foreign end
redis.call('del', lock)
redis.call(publish, channel, '0')
return 1

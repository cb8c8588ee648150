-- read_write_force_release: free a lock that is held in this mode, whoever holds it, and wake the waiters. Not repeatable: a repeat
-- could hit the next holder, so a copy that comes late is refused and an unknown outcome is reported as such.
--
-- KEYS[1] lock      hash     {name}, with mode
-- KEYS[2] channel   channel  redisson_rwlock:{name}
-- ARGV[1] publish   PUBLISH or SPUBLISH
-- ARGV[2] not_after ms of server time; later, the attempt is refused
-- ARGV[3] wanted    read or write
-- ARGV[4] message   0 (wake one) or 1 (wake all)
--
-- Returns 1 (it was held so) | 0 (it was not) | error LATE ms | error FOREIGN text
local lock, channel = KEYS[1], KEYS[2]
local publish, not_after, wanted, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
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
-- read_write: the mode of a read/write lock: nil (free), 'read', 'write', or 'other' (the key holds something else).
local function mode_of(lock)
  local mode = redis.call('hget', lock, 'mode')
  if mode == 'read' or mode == 'write' then return mode end
  return redis.call('exists', lock) == 1 and 'other' or nil
end

local function not_read_write()
  return redis.error_reply('FOREIGN the key holds an exclusive lock or another hash')
end

local function busy(lock, want_holder)
  local holder = ''
  if want_holder == '1' then
    for _, field in ipairs(redis.call('hkeys', lock)) do
      if field ~= 'mode' then holder = field end
    end
  end
  return {redis.call('pttl', lock), holder}
end

local late = in_time(not_after)
if late then return late end
local mode = mode_of(lock)
if mode == 'other' then return not_read_write() end
if mode ~= wanted then return 0 end
redis.call('del', lock)
redis.call(publish, channel, message)
return 1

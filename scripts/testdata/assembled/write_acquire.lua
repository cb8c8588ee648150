-- write_acquire: take the lock alone if nobody holds it. A repeat of the same attempt is granted again, and counts once.
--
-- KEYS[1] lock        hash  {name}, with mode
-- ARGV[1] grant       owner field, runtimeUUID:number:write
-- ARGV[2] lease       ms
-- ARGV[3] not_after   ms of server time; later, the attempt is refused
-- ARGV[4] want_holder 1: a busy reply names a holder
--
-- Returns grant (granted) | {ttl in ms or -1, holder or ''} (busy) | error LATE ms | error FOREIGN text
local lock = KEYS[1]
local grant, lease, not_after, want_holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
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
-- begin_lease: the TTL of a lock that this script has just taken. A user who has no right to PEXPIRE would take a lock without an
-- end, for Redis does not roll a script back: then the lock is given back, and the error is that of the refusal.
local function begin_lease(lock, lease)
  if type(redis.pcall('pexpire', lock, lease)) == 'table' then
    redis.call('del', lock)
    redis.call('pexpire', lock, lease)
  end
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
if mode and redis.call('hexists', lock, grant) == 0 then return busy(lock, want_holder) end
if redis.call('pttl', lock) < tonumber(lease) then -- a late copy must not shorten what was prolonged since
  redis.call('hset', lock, 'mode', 'write', grant, 1)
  begin_lease(lock, lease)
end
return grant

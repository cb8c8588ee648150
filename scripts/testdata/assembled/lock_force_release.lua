-- lock_force_release: free the lock, whoever holds it, and wake the waiters. The caller must not retry the script, because a retry could end the
-- lease of the next holder. For the same reason the script refuses a delayed duplicate. If the outcome is unknown, the caller reports that.
--
-- KEYS[1] lock      hash     {name}
-- KEYS[2] channel   channel  redisson_lock__channel:{name}
-- ARGV[1] publish   PUBLISH or SPUBLISH
-- ARGV[2] not_after server time in ms, after which the attempt is refused
--
-- Returns {holder} (it was held) | 0 (it was free) | error LATE ms | error FOREIGN text
local lock, channel = KEYS[1], KEYS[2]
local publish, not_after = ARGV[1], ARGV[2]
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
-- owner: the pattern of an owner field. Redisson and Holdfast name a holder or waiter by the UUID of its runtime, a colon and a number.
local owner = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$'
local function is_owner(field) return string.find(field, owner) end
local function is_runtime(uuid) return string.find(uuid .. ':0', owner) end
-- holder_of returns the owner field of the holder of an exclusive lock, or nil if the lock is free. Redisson and Holdfast write one field for
-- the holder, with its number of holds. For any other hash, holder_of returns nil and the error FOREIGN, and the hash is not changed.
local function holder_of(lock)
  local fields = redis.call('hlen', lock)
  if fields == 0 then return nil end
  if fields == 1 then
    local hold = redis.call('hgetall', lock)
    if is_owner(hold[1]) and string.find(hold[2], '^[1-9]%d*$') then return hold[1] end
  end
  local what = redis.call('hexists', lock, 'mode') == 1 and 'a read/write lock or another hash' or 'a hash that is no lock'
  return nil, redis.error_reply('FOREIGN the key holds ' .. what)
end
-- demand: tell the runtime of a holder that another process wants the lock. A grant number is odd if the runtime may keep a released lock
-- (Options.Linger). Only such runtimes subscribe, so demand publishes nothing for an even number. The argument `freed` is 'freed ' if the lock has
-- just been released by force, and otherwise nil. demand ignores a failure: without the message, the lock only becomes free a little later.
local function demand(lock, holder, freed)
  local runtime = string.match(holder, '^(.*):%d*[13579]:?%a*$')
  if runtime then redis.pcall('publish', 'holdfast_demand:' .. runtime, (freed or '') .. holder .. ' ' .. lock) end
end

local late = in_time(not_after)
if late then return late end
local holder, foreign = holder_of(lock)
if foreign then return foreign end
if not holder then return 0 end
redis.call('del', lock)
redis.call(publish, channel, '0')
demand(lock, holder, 'freed ')
return {holder}

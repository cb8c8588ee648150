-- read_write_force_release: free a lock that is held in the wanted mode, whoever holds it, and wake the waiters. The caller must not
-- retry the script, because a retry could end the lease of the next holder. For the same reason the script refuses a delayed duplicate. If the
-- outcome is unknown, the caller reports that.
--
-- KEYS[1] lock      hash     {name}, with mode
-- KEYS[2] channel   channel  redisson_rwlock:{name}
-- KEYS[3] timeouts  prefix   {name}:, the beginning of the names of all timeout keys; not itself a key
-- ARGV[1] publish   PUBLISH or SPUBLISH
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] wanted    read or write
-- ARGV[4] message   0 (wake one) or 1 (wake all)
--
-- Returns {field, ...} (mode and the holders) | 0 (it was not held in this mode) | error LATE ms | error FOREIGN text
local lock, channel, timeouts = KEYS[1], KEYS[2], KEYS[3]
local publish, not_after, wanted, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
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
-- demand: tell the runtime of a holder that another process wants the lock. A grant number is odd if the runtime may keep a released lock
-- (Options.Linger). Only such runtimes subscribe, so demand publishes nothing for an even number. The argument `freed` is 'freed ' if the lock has
-- just been released by force, and otherwise nil. demand ignores a failure: without the message, the lock only becomes free a little later.
local function demand(lock, holder, freed)
  local runtime = string.match(holder, '^(.*):%d*[13579]:?%a*$')
  if runtime then redis.pcall('publish', 'holdfast_demand:' .. runtime, (freed or '') .. holder .. ' ' .. lock) end
end
-- read_write: mode_of returns the mode of a read/write lock and one of its holders, or nil if the lock is free. Redisson and Holdfast write a field
-- for the mode, and a field for each holder with the number of its holds. The name of the writer's field ends in ":write". For any other hash,
-- mode_of returns nil, nil and the error FOREIGN, and does not change the hash. mode_of checks only a few fields, so its cost does not depend on the
-- number of readers.
local function holder_among(fields)
  local holder
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      holder = fields[i]
      if not string.find(fields[i + 1], '^[1-9]%d*$') then return nil end
      if not is_owner(holder) and not (string.sub(holder, -6) == ':write' and is_owner(string.sub(holder, 1, -7))) then return nil end
    end
  end
  return holder
end

local function mode_of(lock)
  local mode, some = redis.call('hget', lock, 'mode'), redis.call('hrandfield', lock, 4, 'withvalues')
  if #some == 0 then return nil end
  local holder = (mode == 'read' or mode == 'write') and holder_among(some)
  if holder then return mode, holder end
  return nil, nil, redis.error_reply('FOREIGN the key holds a hash that is no read/write lock')
end

local function busy(lock, holder)
  demand(lock, holder)
  return {redis.call('pttl', lock), holder}
end
-- timeouts: each hold of a reader has its own timeout key, which expires with the lease of the hold. The argument `timeouts` is the beginning of the
-- names of these keys, "{name}:". Scripts get this beginning in KEYS, although it is not a key. So if a hook of the client adds a prefix to all KEYS,
-- the hook adds the prefix here as well.

-- timeouts_of lists the timeout keys of all readers except the reader `but`. The holds of a reader are numbered from 1.
local function timeouts_of(lock, timeouts, but)
  local keys, fields = {}, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    for n = fields[i] ~= but and tonumber(fields[i + 1]) or 0, 1, -1 do
      keys[#keys + 1] = timeouts .. fields[i] .. ':rwlock_timeout:' .. n
    end
  end
  return keys
end

-- longest returns the longest remaining lease in ms of all readers except the reader `but`. It is 0 if all these leases have expired.
local function longest(lock, timeouts, but)
  local most = 0
  for _, timeout in ipairs(timeouts_of(lock, timeouts, but)) do
    most = math.max(most, redis.call('pttl', timeout))
  end
  return most
end

local late = in_time(not_after)
if late then return late end
local mode, holder, foreign = mode_of(lock)
if foreign then return foreign end
if mode ~= wanted then return 0 end
local fields, readers = redis.call('hkeys', lock), timeouts_of(lock, timeouts, '')
redis.call('del', lock)
for _, timeout in ipairs(readers) do redis.call('del', timeout) end
redis.call(publish, channel, message)
demand(lock, holder, 'freed ')
return fields

-- permits_read: return the expired permits to a semaphore, and then read its number of permits.
--
-- KEYS[1] permits  string   {name}, the number of free permits
-- KEYS[2] timeouts zset     {name}:timeout, permit -> its expiry, ms of server time
-- KEYS[3] channel  channel  redisson_sc:{name}
-- ARGV[1] request  id, runtimeUUID:number
-- ARGV[2] publish  PUBLISH or SPUBLISH
-- ARGV[3] which    free | out | all
--
-- Returns {request, number} | error FOREIGN text
local permits, timeouts, channel = KEYS[1], KEYS[2], KEYS[3]
local request, publish, which = ARGV[1], ARGV[2], ARGV[3]
-- count_of returns the integer that a key holds, or nil if there is no key. If the key holds something else, it returns nil and an error:
-- WRONGTYPE for a value that is not a string, FOREIGN for a string that is not a count.
local function count_of(key)
  local value = redis.pcall('get', key)
  if not value then return nil, nil end
  if type(value) == 'table' then return nil, value end -- another type
  local whole = value == '0' or string.find(value, '^%-?[1-9]%d*$')
  if not whole or #value > 15 then -- Lua's numbers are exact up to 2^53, which has 16 digits, and the caller may add to the value
    return nil, redis.error_reply('FOREIGN the key holds something that is no count')
  end
  return tonumber(value), nil
end
-- permits: the sorted set of the permits that are held, with their expiries in ms as scores. Redisson computes the expiry by a
-- client's clock, so a Redisson permit is kept for 10 s after its expiry. A Holdfast permit begins with "hfp1". Its expiry follows the server's
-- clock, and already includes the 10 s.
local function server_now()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- bytes returns a permit as it is stored in Redis. The argument `id` is the hexadecimal form of the permit.
local function bytes(id)
  return (string.gsub(id, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end))
end

local function expired(permit, score, now)
  if string.sub(permit, 1, 4) == 'hfp1' then return score <= now end
  return score + 10000 <= now
end

-- permits_of returns the number of free permits (nil if there is no key) and the earliest expiry of the held permits (nil if none is held).
-- If a key holds something else, such as a permit that is not 16 bytes long, it returns nil, nil and the error FOREIGN.
local function permits_of(permits, timeouts)
  local free, foreign = count_of(permits)
  local first = redis.call('zrange', timeouts, 0, 0, 'withscores')
  if first[1] and #first[1] ~= 16 then foreign = redis.error_reply('FOREIGN ' .. timeouts .. ' holds something that is no permit') end
  if foreign then return nil, nil, foreign end
  return free, tonumber(first[2]), nil
end

-- give_back adds to the number of free permits the permits that the script has just removed from the sorted set. The list `removed` contains the
-- score of each permit, followed by the permit. If Redis refuses the INCRBY, for example because the user lacks the right to it, give_back puts the
-- permits back into the sorted set, so that they are not lost. It returns the number of free permits, or nil and the refusal.
local function give_back(permits, timeouts, removed)
  local free = redis.pcall('incrby', permits, #removed / 2)
  if type(free) ~= 'table' then return free, nil end
  for i = 1, #removed, 2000 do -- in blocks, because unpack is limited to some thousands of values
    redis.call('zadd', timeouts, unpack(removed, i, math.min(i + 1999, #removed)))
  end
  return nil, free
end

-- reap returns expired permits to the semaphore and notifies the waiters. It returns the results of permits_of, or nil, nil and a refusal.
local function reap(permits, timeouts, channel, publish, now)
  local free, first, foreign = permits_of(permits, timeouts)
  if not first or first > now then return free, first, foreign end
  local list = redis.call('zrangebyscore', timeouts, 0, string.format('%.0f', now), 'withscores', 'limit', 0, 1000)
  local gone, removed = {}, {}
  for i = 1, #list, 2 do
    if expired(list[i], tonumber(list[i + 1]), now) then
      gone[#gone + 1] = list[i]
      removed[2 * #gone - 1], removed[2 * #gone] = list[i + 1], list[i]
    end
  end
  if #gone == 0 then return free, first end
  redis.call('zrem', timeouts, unpack(gone))
  free, foreign = give_back(permits, timeouts, removed)
  if foreign then return nil, nil, foreign end
  if free > 0 then redis.call(publish, channel, free) end
  return permits_of(permits, timeouts)
end

local free, _, foreign = reap(permits, timeouts, channel, publish, server_now())
if foreign then return foreign end
local out = redis.call('zcard', timeouts)
if which == 'out' then return {request, out} end
if not free or which == 'free' then return {request, free or 0} end
return {request, free + out}

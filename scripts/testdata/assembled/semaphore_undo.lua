-- semaphore_undo: return the permits that a request has taken, if any. After that, no duplicate of that request takes any
-- permits. A retry changes nothing. A semaphore that was deleted meanwhile stays deleted.
--
-- KEYS[1] semaphore string   {name}
-- KEYS[2] channel   channel  redisson_sc:{name}
-- KEYS[3] attempt   string   holdfast_attempt:{name}:<request>
-- ARGV[1] request   id, runtimeUUID:number, of the request to be undone
-- ARGV[2] keep      ms for which duplicates of that request may still arrive
-- ARGV[3] publish   PUBLISH or SPUBLISH
--
-- Returns {request, permits returned} | error FOREIGN text
local semaphore, channel, attempt = KEYS[1], KEYS[2], KEYS[3]
local request, keep, publish = ARGV[1], ARGV[2], ARGV[3]
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

local count, foreign = count_of(semaphore)
if foreign then return foreign end
local result = redis.call('get', attempt)
local taken = result and string.match(result, '%-?%d+$') or '0'
redis.call('del', attempt) -- first, for maxmemory: a script that has written may also make writes that need memory
redis.call('set', attempt, 'undone', 'px', keep)
if taken == '0' or not count then return {request, 0} end
local permits = redis.call('incrby', semaphore, taken)
if permits >= 0 then redis.call(publish, channel, string.format('%.0f', permits)) end
return {request, tonumber(taken)}

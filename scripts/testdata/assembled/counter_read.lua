-- counter_read: read the number of a semaphore or latch.
--
-- KEYS[1] counter string  {name}
-- ARGV[1] request id, runtimeUUID:number
--
-- Returns {request, number} (the number is 0 if there is no key) | error FOREIGN text
local counter = KEYS[1]
local request = ARGV[1]
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

local count, foreign = count_of(counter)
if foreign then return foreign end
return {request, count or 0}

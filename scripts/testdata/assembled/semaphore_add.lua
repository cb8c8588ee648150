-- semaphore_add: add permits and notify the waiters. This script is used for two purposes: to release permits, possibly those of several
-- callers at once, and to change the number of permits. A retry adds nothing. If the key does not exist, it is created, as if the number
-- had been 0.
--
-- KEYS[1] semaphore string   {name}
-- KEYS[2] channel   channel  redisson_sc:{name}
-- KEYS[3] attempt   string   holdfast_attempt:{name}:<request>
-- KEYS[n] answered  string   holdfast_attempt:{name}:<request>, none or more: results that are no longer needed
-- ARGV[1] request   id, runtimeUUID:number
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] keep      ms for which the result is kept for retries
-- ARGV[4] publish   PUBLISH or SPUBLISH
-- ARGV[5] permits   to be added; may be negative, and so may the sum
--
-- Returns {request, available permits now} | error LATE ms | error FOREIGN text
local semaphore, channel, attempt = KEYS[1], KEYS[2], KEYS[3]
local request, not_after, keep, publish, permits = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
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
-- forget: delete the results of requests that have been answered and have no duplicates in flight. Their keys are KEYS[first] and all later KEYS.
-- A refusal is ignored: the script has done its work, and the results expire anyway.
local function forget(first)
  for i = first, #KEYS do redis.pcall('del', KEYS[i]) end
end

local late = in_time(not_after)
if late then return late end
local result = redis.call('get', attempt)
if not result then
  local _, foreign = count_of(semaphore)
  if foreign then return foreign end
  redis.call('del', attempt) -- first, for maxmemory: a script that has written may also make writes that need memory
  result = string.format('%.0f', redis.call('incrby', semaphore, permits))
  local refused = redis.pcall('set', attempt, result, 'px', keep)
  if refused.err then -- Redis does not roll the script back, and the caller may add the permits again
    redis.call('incrby', semaphore, string.format('%.0f', -tonumber(permits)))
    return refused
  end
  if tonumber(result) >= 0 then -- Redisson's listener throws on a negative number
    redis.pcall(publish, channel, result) -- a refusal is ignored: without a message, waiters find the permits a little later
  end
end
forget(4)
return {request, tonumber(result)}

-- semaphore_drain: take all permits. A retry takes nothing and returns the same number. A semaphore that was never set stays unset.
--
-- KEYS[1] semaphore string   {name}
-- KEYS[2] attempt   string   holdfast_attempt:{name}:<request>
-- KEYS[n] answered  string   holdfast_attempt:{name}:<request>, none or more: results that are no longer needed
-- ARGV[1] request   id, runtimeUUID:number
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] keep      ms for which the result is kept for retries
--
-- Returns {request, number of permits taken} | error LATE ms | error FOREIGN text
local semaphore, attempt = KEYS[1], KEYS[2]
local request, not_after, keep = ARGV[1], ARGV[2], ARGV[3]
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
  local count, foreign = count_of(semaphore)
  if foreign then return foreign end
  result = string.format('%.0f', count or 0)
  redis.call('set', attempt, result, 'px', keep) -- before the count changes: without the right to SET, nothing is taken
  local reply = count and redis.pcall('decrby', semaphore, result) -- not SET, which would remove a TTL that somebody has set
  if type(reply) == 'table' then redis.call('del', attempt); return reply end
end
forget(3)
return {request, tonumber(result)}

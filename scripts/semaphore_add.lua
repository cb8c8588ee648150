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
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/forget.lua

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

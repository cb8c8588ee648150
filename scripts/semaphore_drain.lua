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
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/forget.lua

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

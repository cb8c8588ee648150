-- permits_set: set the total number of permits of a semaphore, including those that are held. A retry changes nothing.
--
-- KEYS[1] permits   string   {name}, the number of free permits
-- KEYS[2] timeouts  zset     {name}:timeout, permit -> its expiry, ms of server time
-- KEYS[3] channel   channel  redisson_sc:{name}
-- KEYS[4] attempt   string   holdfast_attempt:{name}:<request>
-- KEYS[n] answered  string   holdfast_attempt:{name}:<request>, none or more: results that are no longer needed
-- ARGV[1] request   id, runtimeUUID:number
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] keep      ms for which the result is kept for retries
-- ARGV[4] publish   PUBLISH or SPUBLISH
-- ARGV[5] number    to be set
--
-- Returns {request, free permits now} | error LATE ms | error FOREIGN text
local permits, timeouts, channel, attempt = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local request, not_after, keep, publish, number = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/forget.lua
-- @include lib/permits.lua

local late = in_time(not_after)
if late then return late end
local result = redis.call('get', attempt)
if not result then
  local free, _, foreign = permits_of(permits, timeouts)
  if foreign then return foreign end
  local all = (free or 0) + redis.call('zcard', timeouts)
  if not free or all ~= number then
    result = free and (free + number - all) or number
    redis.call('set', permits, string.format('%.0f', result), 'keepttl')
    redis.pcall(publish, channel, number) -- a refusal is ignored: waiters find the permits a little later
  end
  result = string.format('%.0f', result or free)
  redis.call('set', attempt, result, 'px', keep)
end
forget(5)
return {request, tonumber(result)}

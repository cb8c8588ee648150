-- counter_delete: delete a semaphore or latch. A retry changes nothing, even if the counter was set again meanwhile.
--
-- KEYS[1] counter   string   {name}
-- KEYS[2] channel   channel  redisson_sc:{name} or redisson_countdownlatch__channel__{name}
-- KEYS[3] attempt   string   holdfast_attempt:{name}:<request>
-- KEYS[n] answered  string   holdfast_attempt:{name}:<request>, none or more: results that are no longer needed
-- ARGV[1] request   id, runtimeUUID:number
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] keep      ms for which the result is kept for retries
-- ARGV[4] publish   PUBLISH or SPUBLISH
-- ARGV[5] message   to be published, or empty if there is none
--
-- Returns {request, 1} (deleted) | {request, 0} (there was nothing) | error LATE ms | error FOREIGN text
local counter, channel, attempt = KEYS[1], KEYS[2], KEYS[3]
local request, not_after, keep, publish, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/forget.lua

local late = in_time(not_after)
if late then return late end
local result = redis.call('get', attempt)
if not result then
  local count, foreign = count_of(counter)
  if foreign then return foreign end
  result = '0'
  if count then
    result = '1'
    redis.call('del', counter) -- first, for maxmemory: a script that has written may also make writes that need memory
    if message ~= '' then redis.call(publish, channel, message) end
  end
  redis.call('set', attempt, result, 'px', keep)
end
forget(4)
return {request, tonumber(result)}

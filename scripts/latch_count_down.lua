-- latch_count_down: count down for one or more callers at once. At zero, delete the key and notify the waiters. If there is no key, the
-- count is zero and stays zero. A retry does not count down again.
--
-- KEYS[1] latch     string   {name}
-- KEYS[2] channel   channel  redisson_countdownlatch__channel__{name}
-- KEYS[3] attempt   string   holdfast_attempt:{name}:<request>
-- KEYS[n] answered  string   holdfast_attempt:{name}:<request>, none or more: results that are no longer needed
-- ARGV[1] request   id, runtimeUUID:number
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] keep      ms for which the result is kept for retries
-- ARGV[4] publish   PUBLISH or SPUBLISH
-- ARGV[5] times     the number to subtract
--
-- Returns {request, remaining count} | error LATE ms | error FOREIGN text
local latch, channel, attempt = KEYS[1], KEYS[2], KEYS[3]
local request, not_after, keep, publish, times = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/forget.lua

local late = in_time(not_after)
if late then return late end
local result = redis.call('get', attempt)
if not result then
  local count, foreign = count_of(latch)
  if foreign then return foreign end
  redis.call('del', attempt) -- first, for maxmemory: a script that has written may also make writes that need memory
  count = count or 0
  result = string.format('%.0f', math.max(0, count - tonumber(times)))
  redis.call('set', attempt, result, 'px', keep) -- before the count changes: without the right to SET, nothing is counted
  if result ~= '0' then
    redis.call('decrby', latch, times)
  else
    redis.call('del', latch)
    if count > 0 then redis.pcall(publish, channel, '0') end -- a refusal is ignored: waiters read the count a little later
  end
end
forget(4)
return {request, tonumber(result)}

-- permits_release: release permits by their ids, whoever holds them. If one of them is not held, no permit is released. A retry changes nothing.
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
-- ARGV[n] id        hexadecimal form of a permit, one or more
--
-- Returns {request, number released, or 0 if one of the permits is not held} | error LATE ms | error FOREIGN text
local permits, timeouts, channel, attempt = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local request, not_after, keep, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/forget.lua
-- @include lib/permits.lua

local late = in_time(not_after)
if late then return late end
local result = redis.call('get', attempt)
if not result then
  local _, _, foreign = permits_of(permits, timeouts)
  if foreign then return foreign end
  local now, out = server_now(), {}
  for i = 5, #ARGV do
    local permit = bytes(ARGV[i])
    local score = redis.call('zscore', timeouts, permit)
    if score and not expired(permit, tonumber(score), now) then out[#out + 1] = permit end
  end
  result = '0'
  if #out == #ARGV - 4 then
    local back = 0
    -- ZREM is the first write, because it needs no memory. After a first write, Redis does not refuse further writes of a script at maxmemory
    for i = 1, #out, 1000 do -- in blocks, because unpack is limited to some thousands of values
      back = back + redis.call('zrem', timeouts, unpack(out, i, math.min(i + 999, #out)))
    end
    result = string.format('%.0f', back)
    redis.call('incrby', permits, result)
    redis.call(publish, channel, result)
  end
  redis.call('set', attempt, result, 'px', keep)
end
forget(5)
return {request, tonumber(result)}

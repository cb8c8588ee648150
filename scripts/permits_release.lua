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
  local now, all, out, seen = server_now(), true, {}, {}
  for i = 5, #ARGV do
    local permit = bytes(ARGV[i])
    local score = redis.call('zscore', timeouts, permit)
    all = all and score and not expired(permit, tonumber(score), now)
    if all and not seen[permit] then
      seen[permit] = true
      out[#out + 1], out[#out + 2] = score, permit
    end
  end
  result = all and string.format('%.0f', #out / 2) or '0'
  redis.call('del', attempt) -- first, for maxmemory: a script that has written may also make writes that need memory
  redis.call('set', attempt, result, 'px', keep) -- before any permit is released: without the right to SET, none is
  if all then
    for i = 2, #out, 2 do redis.call('zrem', timeouts, out[i]) end
    local _, refused = give_back(permits, timeouts, out)
    if refused then redis.call('del', attempt); return refused end
    redis.pcall(publish, channel, result) -- a refusal is ignored: waiters find the permits a little later
  end
end
forget(5)
return {request, tonumber(result)}

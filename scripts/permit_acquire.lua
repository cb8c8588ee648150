-- permit_acquire: take a permit if one is free. A retry of the same attempt gets the same permit again.
--
-- KEYS[1] permits   string   {name}, the number of free permits
-- KEYS[2] timeouts  zset     {name}:timeout, permit -> its expiry, ms of server time
-- KEYS[3] channel   channel  redisson_sc:{name}
-- ARGV[1] id        hexadecimal form of the permit
-- ARGV[2] lease     ms
-- ARGV[3] not_after server time in ms, after which the attempt is refused
-- ARGV[4] publish   PUBLISH or SPUBLISH
--
-- Returns {id, free permits left} (granted) | {ms until the next permit expires or -1, ''} (none is free) | 'not set' (the number
-- of permits is not set) | error LATE ms | error FOREIGN text
local permits, timeouts, channel = KEYS[1], KEYS[2], KEYS[3]
local id, lease, not_after, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/permits.lua

local late = in_time(not_after)
if late then return late end
local now, permit = server_now(), bytes(id)
local till = string.format('%.0f', now + lease + 10000)
local score = redis.call('zscore', timeouts, permit)
if score then
  if tonumber(score) < tonumber(till) then redis.call('zadd', timeouts, till, permit) end
  return {id, count_of(permits) or 0}
end
local free, first, foreign = reap(permits, timeouts, channel, publish, now)
if foreign then return foreign end
if (free or 0) > 0 then
  redis.call('decrby', permits, 1)
  local refused = redis.pcall('zadd', timeouts, till, permit)
  if type(refused) == 'table' then -- Redis does not roll the script back, and nobody would ever return the permit
    redis.call('decrby', permits, -1)
    return refused
  end
  local life = redis.call('pttl', permits)
  if life > 0 then redis.call('pexpire', timeouts, life) end
  return {id, free - 1}
end
if not free and not first then return 'not set' end
if not first or first >= 922337203685477 then return {-1, ''} end
if first <= now then first = first + 10000 end -- the expired permit of another client, which reap keeps for 10 s more
return {first - now, ''}

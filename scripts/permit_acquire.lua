-- permit_acquire: take a permit if one is free. A repeat of the same attempt is granted again, and counts once.
--
-- KEYS[1] permits   string   {name}, how many are free
-- KEYS[2] timeouts  zset     {name}:timeout, permit -> ms when it expires
-- KEYS[3] channel   channel  redisson_sc:{name}
-- ARGV[1] id        hexadecimal form of the permit
-- ARGV[2] lease     ms
-- ARGV[3] not_after ms of server time; later, the attempt is refused
-- ARGV[4] publish   PUBLISH or SPUBLISH
--
-- Returns id (granted) | {ms until the next one expires or -1, ''} (none is free) | 'not set' (there are no permits) | error LATE ms |
-- error FOREIGN text
local permits, timeouts, channel = KEYS[1], KEYS[2], KEYS[3]
local id, lease, not_after, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
-- @include lib/in_time.lua
-- @include lib/permits.lua

local late = in_time(not_after)
if late then return late end
local free = redis.call('get', permits)
if free and not tonumber(free) then return redis.error_reply('FOREIGN the key holds something else than a number of permits') end
local now, permit = server_now(), bytes(id)
local till = string.format('%.0f', now + lease + 10000)
local score = redis.call('zscore', timeouts, permit)
if score then
  if tonumber(score) < tonumber(till) then redis.call('zadd', timeouts, till, permit) end
  return id
end
reap(permits, timeouts, channel, publish, now)
free = redis.call('get', permits)
if tonumber(free or '0') > 0 then
  redis.call('decrby', permits, 1)
  redis.call('zadd', timeouts, till, permit)
  local life = redis.call('pttl', permits)
  if life > 0 then redis.call('pexpire', timeouts, life) end
  return id
end
local first = redis.call('zrange', timeouts, 0, 0, 'withscores')
if not free and not first[1] then return 'not set' end
if not first[2] or tonumber(first[2]) >= 922337203685477 then return {-1, ''} end
return {math.max(tonumber(first[2]) - now, 0), ''}

-- permit_release: release a permit, and notify the waiters. A retry changes nothing. ZREM is the first
-- write, because it needs no memory. After a first write, Redis does not refuse further writes of a script at maxmemory.
--
-- KEYS[1] permits  string   {name}, the number of free permits
-- KEYS[2] timeouts zset     {name}:timeout, permit -> its expiry, ms of server time
-- KEYS[3] channel  channel  redisson_sc:{name}
-- ARGV[1] id       hexadecimal form of the permit
-- ARGV[2] publish  PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were notified | nil (it was not held, or had expired) | error FOREIGN text
local permits, timeouts, channel = KEYS[1], KEYS[2], KEYS[3]
local id, publish = ARGV[1], ARGV[2]
-- @include lib/count_of.lua
-- @include lib/permits.lua

local permit = bytes(id)
local score = redis.call('zscore', timeouts, permit)
if not score then return nil end
local _, foreign = count_of(permits)
if foreign then return foreign end
redis.call('zrem', timeouts, permit)
local free, refused = give_back(permits, timeouts, {score, permit})
if refused then return refused end
local told = 0
if free >= 0 then told = redis.call(publish, channel, free) end -- Redisson's listener throws on a negative number
if expired(permit, tonumber(score), server_now()) then return nil end
return told

-- permits_read: return the expired permits to a semaphore, and then read its number of permits.
--
-- KEYS[1] permits  string   {name}, the number of free permits
-- KEYS[2] timeouts zset     {name}:timeout, permit -> its expiry, ms of server time
-- KEYS[3] channel  channel  redisson_sc:{name}
-- ARGV[1] request  id, runtimeUUID:number
-- ARGV[2] publish  PUBLISH or SPUBLISH
-- ARGV[3] which    free | out | all
--
-- Returns {request, number} | error FOREIGN text
local permits, timeouts, channel = KEYS[1], KEYS[2], KEYS[3]
local request, publish, which = ARGV[1], ARGV[2], ARGV[3]
-- @include lib/count_of.lua
-- @include lib/permits.lua

local free, _, foreign = reap(permits, timeouts, channel, publish, server_now())
if foreign then return foreign end
local out = redis.call('zcard', timeouts)
if which == 'out' then return {request, out} end
if not free or which == 'free' then return {request, free or 0} end
return {request, free + out}

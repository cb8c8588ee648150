-- read_write_force_release: free a lock that is held in the wanted mode, whoever holds it, and wake the waiters. The caller must not
-- retry the script, because a retry could end the lease of the next holder. For the same reason the script refuses a delayed duplicate. If the
-- outcome is unknown, the caller reports that.
--
-- KEYS[1] lock      hash     {name}, with mode
-- KEYS[2] channel   channel  redisson_rwlock:{name}
-- KEYS[3] timeouts  prefix   {name}:, the beginning of the names of all timeout keys; not itself a key
-- ARGV[1] publish   PUBLISH or SPUBLISH
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] wanted    read or write
-- ARGV[4] message   0 (wake one) or 1 (wake all)
--
-- Returns {field, ...} (mode and the holders) | 0 (it was not held in this mode) | error LATE ms | error FOREIGN text
local lock, channel, timeouts = KEYS[1], KEYS[2], KEYS[3]
local publish, not_after, wanted, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- @include lib/in_time.lua
-- @include lib/owner.lua
-- @include lib/demand.lua
-- @include lib/read_write.lua
-- @include lib/timeouts.lua

local late = in_time(not_after)
if late then return late end
local mode, holder, foreign = mode_of(lock)
if foreign then return foreign end
if mode ~= wanted then return 0 end
local fields, readers = redis.call('hkeys', lock), timeouts_of(lock, timeouts, '')
redis.call('del', lock)
for _, timeout in ipairs(readers) do redis.call('del', timeout) end
redis.call(publish, channel, message)
demand(lock, holder, 'freed ')
return fields

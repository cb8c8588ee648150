-- lock_force_release: free the lock, whoever holds it, and wake the waiters. The caller must not retry the script, because a retry could end the
-- lease of the next holder. For the same reason the script refuses a delayed duplicate. If the outcome is unknown, the caller reports that.
--
-- KEYS[1] lock      hash     {name}
-- KEYS[2] channel   channel  redisson_lock__channel:{name}
-- ARGV[1] publish   PUBLISH or SPUBLISH
-- ARGV[2] not_after server time in ms, after which the attempt is refused
--
-- Returns {holder} (it was held) | 0 (it was free) | error LATE ms | error FOREIGN text
local lock, channel = KEYS[1], KEYS[2]
local publish, not_after = ARGV[1], ARGV[2]
-- @include lib/in_time.lua
-- @include lib/owner.lua
-- @include lib/exclusive.lua
-- @include lib/demand.lua

local late = in_time(not_after)
if late then return late end
local holder, foreign = holder_of(lock)
if foreign then return foreign end
if not holder then return 0 end
redis.call('del', lock)
redis.call(publish, channel, '0')
demand(lock, holder, 'freed ')
return {holder}

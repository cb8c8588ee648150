-- write_acquire: acquire the write lock if nobody holds the lock. A retry of the same attempt is granted again, but the number of
-- holds stays 1.
--
-- KEYS[1] lock        hash  {name}, with mode
-- ARGV[1] grant       owner field, runtimeUUID:number:write
-- ARGV[2] lease       ms
-- ARGV[3] not_after   server time in ms, after which the attempt is refused
--
-- Returns grant (granted) | {ttl in ms or -1, holder} (busy) | error LATE ms | error FOREIGN text
local lock = KEYS[1]
local grant, lease, not_after = ARGV[1], ARGV[2], ARGV[3]
-- @include lib/in_time.lua
-- @include lib/begin_lease.lua
-- @include lib/owner.lua
-- @include lib/demand.lua
-- @include lib/read_write.lua

local late = in_time(not_after)
if late then return late end
local mode, holder, foreign = mode_of(lock)
if foreign then return foreign end
if mode and redis.call('hexists', lock, grant) == 0 then return busy(lock, holder) end
if redis.call('pttl', lock) < tonumber(lease) then -- a delayed duplicate must not shorten a lease that was prolonged since
  redis.call('hset', lock, 'mode', 'write', grant, 1)
  begin_lease(lock, lease)
end
return grant

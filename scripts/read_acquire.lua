-- read_acquire: acquire the read lock, unless a writer of another owner holds the lock. A retry of the same attempt is granted
-- again, but the number of holds stays 1. The script raises TTLs, but never lowers them: another reader may have a longer lease, and a
-- delayed duplicate must not shorten a lease.
--
-- KEYS[1] lock        hash    {name}, with mode
-- KEYS[2] timeout     string  {name}:grant:rwlock_timeout:1
-- ARGV[1] grant       owner field, runtimeUUID:number
-- ARGV[2] lease       ms
-- ARGV[3] not_after   server time in ms, after which the attempt is refused
-- ARGV[4] writer      owner field of the grant with which the same owner holds the write lock, or ''
--
-- Returns grant (granted) | {ttl in ms or -1, holder} (busy) | error LATE ms | error FOREIGN text
local lock, timeout = KEYS[1], KEYS[2]
local grant, lease, not_after, writer = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- @include lib/in_time.lua
-- @include lib/begin_lease.lua
-- @include lib/owner.lua
-- @include lib/demand.lua
-- @include lib/read_write.lua

local late = in_time(not_after)
if late then return late end
local mode, holder, foreign = mode_of(lock)
if foreign then return foreign end
local held = redis.call('hexists', lock, grant) == 1 -- true for a retry, even if the owner has released the write lock since
if mode == 'write' and not held and redis.call('hexists', lock, writer) == 0 then return busy(lock, holder) end
if not mode then redis.call('hset', lock, 'mode', 'read') end
redis.call('hset', lock, grant, 1)
if not mode then
  begin_lease(lock, lease)
elseif redis.call('pttl', lock) < tonumber(lease) then
  redis.call('pexpire', lock, lease)
end
if redis.call('pttl', timeout) < tonumber(lease) then redis.call('set', timeout, 1, 'px', lease) end
return grant

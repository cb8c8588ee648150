-- lock_acquire: take the lock for a new grant if it is free. A retry of the same attempt is granted again, but the number
-- of holds stays 1.
--
-- KEYS[1] lock        hash  {name}
-- ARGV[1] grant       owner field, runtimeUUID:number
-- ARGV[2] lease       ms
-- ARGV[3] not_after   server time in ms, after which the attempt is refused
-- ARGV[4] report      '' asks for a busy reply of two parts; the lock's channel asks for a busy reply of five parts. The prefix + of the channel
--                     says that the runtime has a ticket (lib/crowd.lua). The prefix - says that the runtime has just had the lock
--
-- Returns grant (granted) | {ttl in ms or -1, holder} (busy)
--   | {ttl, holder, subscribers, place in the crowd or 0, ticket or 0} (busy; see join_crowd) | error LATE ms | error FOREIGN text
local lock = KEYS[1]
local grant, lease, not_after, report = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- @include lib/in_time.lua
-- @include lib/begin_lease.lua
-- @include lib/owner.lua
-- @include lib/exclusive.lua
-- @include lib/demand.lua
-- @include lib/crowd.lua

local late = in_time(not_after)
if late then return late end
local ttl = redis.call('pttl', lock) -- -2: there is no lock
if ttl == -2 and #report > 1 and yields(report, grant) then return {-1, '', join_crowd(report, grant)} end
if ttl ~= -2 then
  local holder, foreign = holder_of(lock)
  if foreign then return foreign end
  if holder ~= grant then
    demand(lock, holder)
    if report == '' then return {ttl, holder} end
    return {ttl, holder, join_crowd(report, grant)} -- three results
  end
end
if ttl < tonumber(lease) then -- a delayed duplicate must not shorten a lease that was prolonged since
  redis.call('hset', lock, grant, 1)
  begin_lease(lock, lease)
end
if #report > 1 then leave_crowd(report, grant) end
return grant

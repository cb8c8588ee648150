-- fenced_acquire: if the lock is free, take it for a new grant, and issue a block of fencing tokens to the grant. A retry of the same
-- attempt is granted again with new tokens, but the number of holds stays 1.
--
-- KEYS[1] lock        hash    {name}
-- KEYS[2] counter     string  redisson_lock_token:{name}
-- ARGV[1] grant       owner field, runtimeUUID:number
-- ARGV[2] lease       ms
-- ARGV[3] not_after   server time in ms, after which the attempt is refused
-- ARGV[4] report      '' asks for a busy reply of two parts; the lock's channel asks for a busy reply of five parts. A + before the channel
--                     means that the runtime has a ticket (lib/crowd.lua). A - means that the runtime has just had the lock
-- ARGV[5] tokens      largest number of tokens to take
-- ARGV[6] min_token   the caller's estimate of the server time in us, or 0. The last token is not smaller than min_token
--
-- Returns {grant, first, last} (granted) | {ttl in ms or -1, holder} (busy)
--   | {ttl, holder, subscribers, place in the crowd or 0, ticket or 0} (busy; see join_crowd) | error LATE ms | error FOREIGN text
local lock, counter = KEYS[1], KEYS[2]
local grant, lease, not_after, report, tokens, min_token = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- @include lib/in_time.lua
-- @include lib/begin_lease.lua
-- @include lib/owner.lua
-- @include lib/exclusive.lua
-- @include lib/demand.lua
-- @include lib/crowd.lua
-- @include lib/tokens.lua

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
local first, last, foreign = take_tokens(counter, tonumber(tokens), tonumber(min_token))
if foreign then return foreign end
if ttl < tonumber(lease) then -- a delayed duplicate must not shorten a lease that was prolonged since
  redis.call('hset', lock, grant, 1)
  begin_lease(lock, lease)
end
if #report > 1 then leave_crowd(report, grant) end
return {grant, first, last}

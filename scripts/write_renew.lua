-- write_renew: restart the leases of many writers, each only if its grant still holds the lock. It never creates anything.
-- If the same owner also holds the read lock, write_renew never shortens the TTL, because the lease of the read hold may be longer.
--
-- KEYS[n] lock      hash  {name}, with mode, one or more
-- ARGV[1] lease     ms
-- ARGV[2] not_after server time in ms, after which nothing is renewed
-- ARGV[3] first     owner field of the first lock
-- ARGV[n] grant     owner fields of the others, in the order of KEYS
--
-- Returns {first, position, ...}: the positions (from 1) of the grants that no longer hold the lock | error LATE ms
local lease, not_after, first = ARGV[1], ARGV[2], ARGV[3]
-- @include lib/in_time.lua

local late = in_time(not_after)
if late then return late end
local gone = {first}
for i, lock in ipairs(KEYS) do
  local held = redis.pcall('hexists', lock, ARGV[i + 2])
  if held == 1 then
    if redis.call('hlen', lock) == 2 or redis.call('pttl', lock) < tonumber(lease) then redis.call('pexpire', lock, lease) end
  elseif held == 0 or string.find(held.err, 'WRONGTYPE', 1, true) then
    gone[#gone + 1] = i -- a key of another type must not keep the others from being renewed
  else
    return held
  end
end
return gone

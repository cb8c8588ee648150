-- read_renew: restart the leases of many readers. A lease is restarted only if its grant still holds the lock. The script never creates anything.
-- The TTL of a lock that readers hold is the longest of their leases. So if the script shortens a lease, it may have to lower the TTL as well.
--
-- KEYS[n] lock      hash    {name}, with mode; each is followed by its timeout
-- KEYS[n] timeout   string  {name}:grant:rwlock_timeout:1
-- ARGV[1] lease     ms
-- ARGV[2] not_after server time in ms, after which nothing is renewed
-- ARGV[3] first     owner field of the first lock
-- ARGV[n] grant     owner fields of the others, in the order of KEYS
--
-- Returns {first, position, ...}: the positions (from 1) of the grants that no longer hold the lock | error LATE ms
local lease, not_after, first = ARGV[1], ARGV[2], ARGV[3]
-- @include lib/in_time.lua
-- @include lib/timeouts.lua

local function renew(lock, timeout, grant)
  local shorter = redis.call('pttl', timeout) > tonumber(lease)
  redis.call('pexpire', timeout, lease)
  if redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  elseif shorter and redis.call('hget', lock, 'mode') == 'read' then
    local timeouts = string.sub(timeout, 1, -1 - #(grant .. ':rwlock_timeout:1'))
    redis.call('pexpire', lock, longest(lock, timeouts, ''))
  end
end

local late = in_time(not_after)
if late then return late end
local gone = {first}
for i = 1, #KEYS / 2 do
  local lock, timeout, grant = KEYS[2 * i - 1], KEYS[2 * i], ARGV[i + 2]
  local held = redis.pcall('hexists', lock, grant)
  if held == 1 and redis.call('exists', timeout) == 1 then
    renew(lock, timeout, grant)
  elseif type(held) == 'number' or string.find(held.err, 'WRONGTYPE', 1, true) then
    gone[#gone + 1] = i -- a key of another type must not keep the others from being renewed
  else
    return held
  end
end
return gone

-- read_renew: give many readers a full lease again, each only if its grant still holds. Nothing is ever created, and the locks' own
-- TTLs are only raised: others may hold for longer.
--
-- KEYS[n] lock      hash    {name}, and after each
-- KEYS[n] timeout   string  {name}:grant:rwlock_timeout:1
-- ARGV[1] lease     ms
-- ARGV[2] not_after ms of server time; later, nothing is renewed
-- ARGV[3] first     owner field of the first lock
-- ARGV[n] grant     owner fields of the others, in the order of KEYS
--
-- Returns {first, position, ...}: the positions (from 1) of the grants that do not hold any more | error LATE ms
local lease, not_after, first = ARGV[1], ARGV[2], ARGV[3]
-- @include lib/in_time.lua

local late = in_time(not_after)
if late then return late end
local gone = {first}
for i = 1, #KEYS / 2 do
  local lock, timeout = KEYS[2 * i - 1], KEYS[2 * i]
  local held = redis.pcall('hexists', lock, ARGV[i + 2])
  if held == 1 and redis.call('exists', timeout) == 1 then
    redis.call('pexpire', timeout, lease)
    if redis.call('pttl', lock) < tonumber(lease) then redis.call('pexpire', lock, lease) end
  elseif type(held) == 'number' or string.find(held.err, 'WRONGTYPE', 1, true) then
    gone[#gone + 1] = i -- another type in its place is no reason to fail the others
  else
    return held
  end
end
return gone

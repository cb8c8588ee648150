-- permit_renew: restart the leases of many permits. A lease is restarted only if its permit is still held. The script never creates a permit.
--
-- KEYS[n] timeouts  zset  {name}:timeout, one or more
-- ARGV[1] lease     ms
-- ARGV[2] not_after server time in ms, after which nothing is renewed
-- ARGV[3] first     hexadecimal form of the first permit
-- ARGV[n] id        hexadecimal forms of the other permits, in the order of KEYS
--
-- Returns {first, position, ...}: the positions (from 1) of the permits that are no longer held | error LATE ms
local lease, not_after, first = tonumber(ARGV[1]), ARGV[2], ARGV[3]
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/permits.lua

-- prolong sets the expiry of a permit. If Redis refuses that at maxmemory, prolong removes the permit and adds it again. Redis allows the removal,
-- because it needs no memory. After the first write of a script, Redis also allows the script's writes that need memory.
local function prolong(timeouts, permit, till)
  local refused = redis.pcall('zadd', timeouts, till, permit)
  if type(refused) ~= 'table' then return nil end
  if not string.find(refused.err, 'OOM', 1, true) then return refused end
  redis.call('zrem', timeouts, permit)
  redis.call('zadd', timeouts, till, permit)
end

local late = in_time(not_after)
if late then return late end
local now, gone = server_now(), {first}
for i, timeouts in ipairs(KEYS) do
  local permit = bytes(ARGV[i + 2])
  local score = redis.pcall('zscore', timeouts, permit)
  if type(score) == 'table' and not string.find(score.err, 'WRONGTYPE', 1, true) then return score end
  if type(score) == 'string' and not expired(permit, tonumber(score), now) then
    local refused = prolong(timeouts, permit, string.format('%.0f', now + lease + 10000))
    if refused then return refused end
  else
    gone[#gone + 1] = i
  end
end
return gone

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
-- in_time returns nil until the server time has passed not_after (ms), and after that the error reply LATE with the server time in ms. A
-- delayed duplicate of an attempt must not run after its caller has given the attempt up.
local server_time
local function in_time(not_after)
  if not server_time then -- time stands still during a script, even one for many locks
    local t = redis.call('time')
    server_time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if server_time > tonumber(not_after) then
    return redis.error_reply('LATE ' .. string.format('%.0f', server_time))
  end
  return nil
end

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

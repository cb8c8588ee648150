-- write_pass: pass the lock from one writer to the next of the same process, with a fresh lease and without a wake-up. A retry
-- finds the new grant in place and restarts its lease.
--
-- KEYS[1] lock      hash  {name}, with mode
-- ARGV[1] from      owner field of the grant that ends
-- ARGV[2] grant     owner field of the grant that begins
-- ARGV[3] lease     ms
-- ARGV[4] not_after server time in ms, after which the attempt is refused
--
-- Returns grant (passed) | nil (neither grant holds the write lock, or the owner of the grant `from` also reads) | error LATE ms
local lock = KEYS[1]
local from, grant, lease, not_after = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
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
if redis.call('hexists', lock, grant) == 0 then
  if redis.call('hexists', lock, from) == 0 or redis.call('hlen', lock) ~= 2 then return nil end
  redis.call('hset', lock, grant, 1)
  redis.call('hdel', lock, from)
elseif redis.call('pttl', lock) >= tonumber(lease) then
  return grant -- a delayed duplicate must not shorten a lease that was prolonged since
end
redis.call('pexpire', lock, lease)
return grant

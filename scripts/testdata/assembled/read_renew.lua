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
-- timeouts: each hold of a reader has its own timeout key, which expires with the lease of the hold. The argument `timeouts` is the beginning of the
-- names of these keys, "{name}:". Scripts get this beginning in KEYS, although it is not a key. So if a hook of the client adds a prefix to all KEYS,
-- the hook adds the prefix here as well.

-- timeouts_of lists the timeout keys of all readers except the reader `but`. The holds of a reader are numbered from 1.
local function timeouts_of(lock, timeouts, but)
  local keys, fields = {}, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    for n = fields[i] ~= but and tonumber(fields[i + 1]) or 0, 1, -1 do
      keys[#keys + 1] = timeouts .. fields[i] .. ':rwlock_timeout:' .. n
    end
  end
  return keys
end

-- longest returns the longest remaining lease in ms of all readers except the reader `but`. It is 0 if all these leases have expired.
local function longest(lock, timeouts, but)
  local most = 0
  for _, timeout in ipairs(timeouts_of(lock, timeouts, but)) do
    most = math.max(most, redis.call('pttl', timeout))
  end
  return most
end

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

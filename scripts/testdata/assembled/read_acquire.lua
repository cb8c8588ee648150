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
-- begin_lease: set the TTL of a lock that this script has just taken. If Redis refuses that, for example because the user lacks the right
-- to PEXPIRE, delete the lock and fail with the same refusal: Redis does not roll the script back, and the lock would never expire.
local function begin_lease(lock, lease)
  if type(redis.pcall('pexpire', lock, lease)) == 'table' then
    redis.call('del', lock)
    redis.call('pexpire', lock, lease)
  end
end
-- owner: the pattern of an owner field. Redisson and Holdfast name a holder or waiter by the UUID of its runtime, a colon and a number.
local owner = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$'
local function is_owner(field) return string.find(field, owner) end
local function is_runtime(uuid) return string.find(uuid .. ':0', owner) end
-- demand: tell the runtime of a holder that another process wants the lock. A grant number is odd if the runtime may keep a released lock
-- (Options.Linger). Only such runtimes subscribe, so demand publishes nothing for an even number. The argument `freed` is 'freed ' if the lock has
-- just been released by force, and otherwise nil. demand ignores a failure: without the message, the lock only becomes free a little later.
local function demand(lock, holder, freed)
  local runtime = string.match(holder, '^(.*):%d*[13579]:?%a*$')
  if runtime then redis.pcall('publish', 'holdfast_demand:' .. runtime, (freed or '') .. holder .. ' ' .. lock) end
end
-- read_write: mode_of returns the mode of a read/write lock and one of its holders, or nil if the lock is free. Redisson and Holdfast write a field
-- for the mode, and a field for each holder with the number of its holds. The name of the writer's field ends in ":write". For any other hash,
-- mode_of returns nil, nil and the error FOREIGN, and does not change the hash. mode_of checks only a few fields, so its cost does not depend on the
-- number of readers.
local function holder_among(fields)
  local holder
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      holder = fields[i]
      if not string.find(fields[i + 1], '^[1-9]%d*$') then return nil end
      if not is_owner(holder) and not (string.sub(holder, -6) == ':write' and is_owner(string.sub(holder, 1, -7))) then return nil end
    end
  end
  return holder
end

local function mode_of(lock)
  local mode, some = redis.call('hget', lock, 'mode'), redis.call('hrandfield', lock, 4, 'withvalues')
  if #some == 0 then return nil end
  local holder = (mode == 'read' or mode == 'write') and holder_among(some)
  if holder then return mode, holder end
  return nil, nil, redis.error_reply('FOREIGN the key holds a hash that is no read/write lock')
end

local function busy(lock, holder)
  demand(lock, holder)
  return {redis.call('pttl', lock), holder}
end

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

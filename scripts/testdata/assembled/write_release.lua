-- write_release: end the writer's hold and wake all who wait. If the same owner reads, the lock goes on as a read lock, for as long
-- as its reader does. A repeat changes nothing. HDEL comes first: it grows no memory, so unlocking works at maxmemory.
--
-- KEYS[1] lock     hash     {name}, with mode
-- KEYS[2] channel  channel  redisson_rwlock:{name}
-- KEYS[3] timeouts string   {name}: what the timeout keys of all readers begin with; no such key exists
-- ARGV[1] grant    owner field, runtimeUUID:number:write
-- ARGV[2] publish  PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were told | nil (this grant does not hold the lock)
local lock, channel, timeouts = KEYS[1], KEYS[2], KEYS[3]
local grant, publish = ARGV[1], ARGV[2]
-- timeouts: each hold of a reader has a timeout key of its own, which ends with the hold's lease. timeouts is what all of their names
-- begin with, {name}: and comes from KEYS, because the keys that a client names may have got a prefix on their way.

-- timeouts_of lists the timeout keys of all readers but one. The holds of a reader are numbered from 1.
local function timeouts_of(lock, timeouts, but)
  local keys, fields = {}, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    for n = fields[i] ~= but and tonumber(fields[i + 1]) or 0, 1, -1 do
      keys[#keys + 1] = timeouts .. fields[i] .. ':rwlock_timeout:' .. n
    end
  end
  return keys
end

-- longest is for how many ms at most one of the readers goes on, but for one of them; 0: all have died.
local function longest(lock, timeouts, but)
  local most = 0
  for _, timeout in ipairs(timeouts_of(lock, timeouts, but)) do
    most = math.max(most, redis.call('pttl', timeout))
  end
  return most
end

if redis.call('hexists', lock, grant) == 0 then return nil end
local left = longest(lock, timeouts, grant)
redis.call('hdel', lock, grant)
if left > 0 then
  redis.call('hset', lock, 'mode', 'read')
  redis.call('pexpire', lock, left)
else
  redis.call('del', lock)
end
return redis.call(publish, channel, '1')

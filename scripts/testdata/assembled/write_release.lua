-- write_release: end the writer's hold and wake all who wait. If the same owner reads, the lock goes on as a read lock, for as long
-- as its reader does. A repeat changes nothing. HDEL comes first: it grows no memory, so unlocking works at maxmemory.
--
-- KEYS[1] lock    hash     {name}, with mode
-- KEYS[2] channel channel  redisson_rwlock:{name}
-- ARGV[1] grant   owner field, runtimeUUID:number:write
-- ARGV[2] publish PUBLISH or SPUBLISH
-- ARGV[3] prefix  {name}, with which the readers' timeout keys begin
--
-- Returns the number of subscribers that were told | nil (this grant does not hold the lock)
local lock, channel = KEYS[1], KEYS[2]
local grant, publish, prefix = ARGV[1], ARGV[2], ARGV[3]
-- longest: for how many ms at most one of the readers goes on, but for one of them. Each hold has a timeout key of its own, numbered
-- from 1; 0: all have died. prefix is {name}.
local function longest(lock, prefix, but)
  local most, fields = 0, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    local holds = fields[i] ~= but and tonumber(fields[i + 1]) or 0
    for n = holds, 1, -1 do
      most = math.max(most, redis.call('pttl', prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. n))
    end
  end
  return most
end

if redis.call('hexists', lock, grant) == 0 then return nil end
local left = longest(lock, prefix, grant)
redis.call('hdel', lock, grant)
if left > 0 then
  redis.call('hset', lock, 'mode', 'read')
  redis.call('pexpire', lock, left)
else
  redis.call('del', lock)
end
return redis.call(publish, channel, '1')

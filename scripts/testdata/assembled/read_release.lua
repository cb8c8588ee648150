-- read_release: end one reader's hold, and free the lock after the last that lives, waking the waiters. A repeat changes nothing.
--
-- KEYS[1] lock    hash     {name}, with mode
-- KEYS[2] channel channel  redisson_rwlock:{name}
-- KEYS[3] timeout string   {name}:grant:rwlock_timeout:1
-- ARGV[1] grant   owner field, runtimeUUID:number
-- ARGV[2] publish PUBLISH or SPUBLISH
-- ARGV[3] prefix  {name}, with which the other readers' timeout keys begin
--
-- Returns the number of subscribers that were told | -1 (others hold it still: nobody was told) | nil (this grant does not hold the lock)
local lock, channel, timeout = KEYS[1], KEYS[2], KEYS[3]
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
local alone = redis.call('hget', lock, 'mode') == 'write' -- the same owner goes on as a writer
local left = longest(lock, prefix, grant)
redis.call('hdel', lock, grant)
redis.call('del', timeout)
if alone then return -1 end
if left > 0 then
  redis.call('pexpire', lock, left)
  return -1
end
redis.call('del', lock)
return redis.call(publish, channel, '0')

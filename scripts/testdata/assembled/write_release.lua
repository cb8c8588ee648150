-- write_release: end the writer's hold and wake all waiters. If the same owner also holds the read lock, the lock becomes a read lock until that
-- hold ends. A retry changes nothing. The first write is DEL or HDEL, which need no memory, so unlocking works at maxmemory.
--
-- If `keep` is not 0, the write lock stays taken, with `nobody` as its holder (see lock_keep). It stays taken for `keep` ms, or longer if
-- a read lease of the same owner ends later.
--
-- KEYS[1] lock     hash     {name}, with mode
-- KEYS[2] channel  channel  redisson_rwlock:{name}
-- KEYS[3] timeouts prefix   {name}:, the beginning of the names of all timeout keys; not itself a key
-- ARGV[1] grant    owner field, runtimeUUID:number:write
-- ARGV[2] publish  PUBLISH or SPUBLISH
-- ARGV[3] keep     ms for which the lock stays taken | 0
-- ARGV[4] nobody   owner field that replaces `grant` if the lock stays taken, runtimeUUID:-number:write
--
-- Returns the number of subscribers that were notified | nil (this grant does not hold the lock)
local lock, channel, timeouts = KEYS[1], KEYS[2], KEYS[3]
local grant, publish, keep, nobody = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
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

if redis.call('hexists', lock, grant) == 0 then return nil end
local left = longest(lock, timeouts, grant)
if keep == 0 and left == 0 then
  redis.call('del', lock) -- without HDEL: if the user lacks the right to DEL, HDEL would leave a mode without a holder, which is no lock
else
  redis.call('hdel', lock, grant)
  if keep > 0 then
    redis.call('hset', lock, nobody, 1)
  else
    redis.call('hset', lock, 'mode', 'read')
  end
  redis.call('pexpire', lock, math.max(keep, left))
end
return redis.call(publish, channel, '1')

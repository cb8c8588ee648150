-- Release one hold of the read half. The lock then lasts as long as the longest of the other holds. If there are no other holds, or
-- all of their timeout keys have expired, the lock is freed and the waiters are woken.
--
-- KEYS[1] lock
-- KEYS[2] channel of the lock
-- KEYS[3] prefix of the owner's timeout keys; the number of the hold follows
-- KEYS[4] prefix of the timeout keys of all owners
-- KEYS[5] latch: the result of this request, if it was executed before
-- ARGV[1] message to publish
-- ARGV[2] owner's field
-- ARGV[3] command to publish with
-- ARGV[4] life of the latch in ms
--
-- Returns 1 if the lock is free now, 0 if it is still held, nil if the owner has no hold.

local lock, channel, timeouts, prefix, latch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local message, field, publish, latchLife = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local before = redis.call('GET', latch)
if before then return tonumber(before) end
local mode = redis.call('HGET', lock, 'mode')
if not mode then
    redis.call(publish, channel, message)
    redis.call('SET', latch, 1, 'PX', latchLife)
    return nil
end
if redis.call('HEXISTS', lock, field) == 0 then return nil end
local left = redis.call('HINCRBY', lock, field, -1)
if left == 0 then redis.call('HDEL', lock, field) end
redis.call('DEL', timeouts .. ':' .. left + 1)

local longest = -3
local all = redis.call('HGETALL', lock)
for i = 1, #all, 2 do
    for n = tonumber(all[i + 1]) or 0, 1, -1 do
        longest = math.max(longest, redis.call('PTTL', prefix .. ':' .. all[i] .. ':rwlock_timeout:' .. n))
    end
end
if #all > 2 and (longest > 0 or mode == 'write') then
    if longest > 0 then redis.call('PEXPIRE', lock, longest) end
    redis.call('SET', latch, 0, 'PX', latchLife)
    return 0
end
redis.call('DEL', lock)
redis.call(publish, channel, message)
redis.call('SET', latch, 1, 'PX', latchLife)
return 1

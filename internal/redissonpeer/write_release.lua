-- Release one hold of the write half. If the owner has no further hold of the write half, but holds the read half, the lock changes to mode read,
-- and no message is published.
--
-- KEYS[1] lock
-- KEYS[2] channel of the lock
-- KEYS[3] latch: the result of this request, if it was executed before
-- ARGV[1] message to publish
-- ARGV[2] lease in ms, for a lock that is still held
-- ARGV[3] owner's field
-- ARGV[4] command to publish with
-- ARGV[5] life of the latch in ms
--
-- Returns 1 if the write half is free now, 0 if it is still held, nil if the owner has no hold.

local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
local message, lease, field, publish, latchLife = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local before = redis.call('GET', latch)
if before then return tonumber(before) end
local mode = redis.call('HGET', lock, 'mode')
if not mode then
    redis.call(publish, channel, message)
    redis.call('SET', latch, 1, 'PX', latchLife)
    return nil
end
if mode ~= 'write' or redis.call('HEXISTS', lock, field) == 0 then return nil end
if redis.call('HINCRBY', lock, field, -1) > 0 then
    redis.call('PEXPIRE', lock, lease)
    redis.call('SET', latch, 0, 'PX', latchLife)
    return 0
end
redis.call('HDEL', lock, field)
if redis.call('HLEN', lock) == 1 then
    redis.call('DEL', lock)
    redis.call(publish, channel, message)
else
    redis.call('HSET', lock, 'mode', 'read')
end
redis.call('SET', latch, 1, 'PX', latchLife)
return 1

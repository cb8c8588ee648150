-- Release one hold. Releasing the last hold frees the lock and wakes the waiters.
--
-- KEYS[1] lock
-- KEYS[2] channel of the lock
-- KEYS[3] latch: the result of this request, if it was executed before
-- ARGV[1] message to publish
-- ARGV[2] lease in ms, for a lock that is still held
-- ARGV[3] owner
-- ARGV[4] command to publish with
-- ARGV[5] life of the latch in ms
--
-- Returns 1 if the lock is free now, 0 if it is still held, nil if the owner has no hold.

local lock, channel, latch = KEYS[1], KEYS[2], KEYS[3]
local message, lease, owner, publish, latchLife = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local before = redis.call('GET', latch)
if before then
    return tonumber(before)
end
if redis.call('HEXISTS', lock, owner) == 0 then
    return nil
end

local free = 0
if redis.call('HINCRBY', lock, owner, -1) > 0 then
    redis.call('PEXPIRE', lock, lease)
else
    redis.call('DEL', lock)
    redis.call(publish, channel, message)
    free = 1
end
redis.call('SET', latch, free, 'PX', latchLife)
return free

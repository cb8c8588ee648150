-- Release one hold of a fair lock. Releasing the last hold frees the lock and wakes the first waiter. Releasing a free lock succeeds.
--
-- KEYS[1] lock
-- KEYS[2] queue
-- KEYS[3] timeouts
-- KEYS[4] prefix of the waiters' channels, which end with ":owner"
-- KEYS[5] latch: the result of this request, if it was executed before
-- ARGV[1] message to publish
-- ARGV[2] lease in ms, for a lock that is still held
-- ARGV[3] owner
-- ARGV[4] the client's clock in ms
-- ARGV[5] command to publish with
-- ARGV[6] life of the latch in ms
--
-- Returns 1 if the lock is free now, 0 if it is still held, nil if the owner has no hold.

local lock, queue, timeouts, channel, latch = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local message, lease, owner, now, publish, latchLife = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]

local before = redis.call('GET', latch)
if before then return tonumber(before) end

local head = redis.call('LINDEX', queue, 0)
while head do
    local score = redis.call('ZSCORE', timeouts, head)
    if not score or tonumber(score) > now then break end
    redis.call('ZREM', timeouts, head)
    redis.call('LPOP', queue)
    head = redis.call('LINDEX', queue, 0)
end

if redis.call('EXISTS', lock) == 1 then
    if redis.call('HEXISTS', lock, owner) == 0 then return nil end
    if redis.call('HINCRBY', lock, owner, -1) > 0 then
        redis.call('PEXPIRE', lock, lease)
        redis.call('SET', latch, 0, 'PX', latchLife)
        return 0
    end
    redis.call('DEL', lock)
end
redis.call('SET', latch, 1, 'PX', latchLife)
if head then redis.call(publish, channel .. ':' .. head, message) end
return 1

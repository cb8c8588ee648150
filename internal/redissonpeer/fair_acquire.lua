-- Take a fair lock for an owner, or add a hold if the owner already has it. If another owner holds the lock or is first in the queue, add this
-- owner to the queue, but only if ARGV[5] is 1.
--
-- KEYS[1] lock
-- KEYS[2] queue: list of owners
-- KEYS[3] timeouts: sorted set, owner -> time in ms from which it may be removed from the queue
-- ARGV[1] lease in ms
-- ARGV[2] owner
-- ARGV[3] ms for which a place in the queue is kept
-- ARGV[4] the client's clock in ms
-- ARGV[5] 1: join the queue, 0: only try
--
-- Returns nil if the owner has the lock now, else the number of ms to wait (1 if ARGV[5] is 0).

local lock, queue, timeouts = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, wait, now, queues = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

local head = redis.call('LINDEX', queue, 0)
while head do
    local score = redis.call('ZSCORE', timeouts, head)
    if not score or tonumber(score) > now then break end
    redis.call('ZREM', timeouts, head)
    redis.call('LPOP', queue)
    head = redis.call('LINDEX', queue, 0)
end

if redis.call('EXISTS', lock) == 0 and (not head or head == owner) then
    redis.call('LPOP', queue)
    redis.call('ZREM', timeouts, owner)
    for _, waiter in ipairs(redis.call('ZRANGE', timeouts, 0, -1)) do
        redis.call('ZINCRBY', timeouts, -wait, waiter)
    end
    redis.call('HSET', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end
if redis.call('HEXISTS', lock, owner) == 1 then
    redis.call('HINCRBY', lock, owner, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end
if queues ~= '1' then return 1 end
if redis.call('ZSCORE', timeouts, owner) then
    return math.max(0, redis.call('PTTL', lock))
end

local last = redis.call('LINDEX', queue, -1)
local ttl = redis.call('PTTL', lock)
if last and last ~= owner and redis.call('ZSCORE', timeouts, last) then
    ttl = tonumber(redis.call('ZSCORE', timeouts, last)) - now
end
if redis.call('ZADD', timeouts, string.format('%.0f', ttl + wait + now), owner) == 1 then
    redis.call('RPUSH', queue, owner)
end
return ttl

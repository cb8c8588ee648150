-- Remove a waiter that gives up from the queue of a fair lock.
--
-- KEYS[1] queue
-- KEYS[2] timeouts
-- ARGV[1] owner
-- ARGV[2] ms for which a place in the queue is kept
--
-- Returns 1 if the owner was in the queue, else 0.

local queue, timeouts = KEYS[1], KEYS[2]
local owner, wait = ARGV[1], tonumber(ARGV[2])

local found = 0
for _, waiter in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if found == 1 then redis.call('ZINCRBY', timeouts, -wait, waiter) end
    if waiter == owner then found = 1 end
end
redis.call('ZREM', timeouts, owner)
redis.call('LREM', queue, 0, owner)
return found

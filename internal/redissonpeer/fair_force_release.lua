-- Free a fair lock, no matter who holds it, and wake the first waiter.
--
-- KEYS[1] lock
-- KEYS[2] queue
-- KEYS[3] timeouts
-- KEYS[4] prefix of the waiters' channels, which end with ":owner"
-- ARGV[1] message to publish
-- ARGV[2] the client's clock in ms
-- ARGV[3] command to publish with
--
-- Returns 1 if there was a lock, else 0.

local lock, queue, timeouts, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local message, now, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local head = redis.call('LINDEX', queue, 0)
while head do
    local score = redis.call('ZSCORE', timeouts, head)
    if not score or tonumber(score) > now then break end
    redis.call('ZREM', timeouts, head)
    redis.call('LPOP', queue)
    head = redis.call('LINDEX', queue, 0)
end
if redis.call('DEL', lock) == 0 then return 0 end
if head then redis.call(publish, channel .. ':' .. head, message) end
return 1

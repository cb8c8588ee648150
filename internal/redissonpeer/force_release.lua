-- Free the lock, no matter who holds it, and wake the waiters.
--
-- KEYS[1] lock
-- KEYS[2] channel of the lock
-- ARGV[1] message to publish
-- ARGV[2] command to publish with
--
-- Returns 1 if there was a lock, else 0.

local lock, channel = KEYS[1], KEYS[2]
local message, publish = ARGV[1], ARGV[2]

local existed = redis.call('DEL', lock)
if existed == 1 then
    redis.call(publish, channel, message)
end
return existed

-- Free a read/write lock if it is held in the given mode, and wake the waiters. Timeout keys are not deleted.
--
-- KEYS[1] lock
-- KEYS[2] channel of the lock
-- ARGV[1] mode
-- ARGV[2] message to publish
-- ARGV[3] command to publish with
--
-- Returns 1 if the lock was held in that mode, else 0.

local lock, channel = KEYS[1], KEYS[2]
local mode, message, publish = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HGET', lock, 'mode') ~= mode then return 0 end
redis.call('DEL', lock)
redis.call(publish, channel, message)
return 1

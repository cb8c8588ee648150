-- Take the write half of a lock for an owner, or add a hold if the owner already has it.
--
-- KEYS[1] lock: hash with mode, and owner:write -> number of holds
-- ARGV[1] lease in ms
-- ARGV[2] owner's field
--
-- Returns nil if the owner has the write half now, else the lock's PTTL.

local lock = KEYS[1]
local lease, field = tonumber(ARGV[1]), ARGV[2]

local mode = redis.call('HGET', lock, 'mode')
if not mode then
    redis.call('HSET', lock, 'mode', 'write')
    redis.call('HSET', lock, field, 1)
    redis.call('PEXPIRE', lock, lease)
    return nil
end
if mode == 'write' and redis.call('HEXISTS', lock, field) == 1 then
    redis.call('HINCRBY', lock, field, 1)
    redis.call('PEXPIRE', lock, redis.call('PTTL', lock) + lease) -- as in Redisson, the leases add up
    return nil
end
return redis.call('PTTL', lock)

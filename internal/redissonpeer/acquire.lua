-- Take the lock for an owner, or add a hold if the owner already has it. A lock that another owner holds is left unchanged.
--
-- KEYS[1] lock: hash, one field, owner -> number of holds
-- ARGV[1] lease in ms
-- ARGV[2] owner
--
-- Returns nil if the owner has the lock now, else the lock's PTTL (-1 if the lock has no TTL).

local lock = KEYS[1]
local lease, owner = ARGV[1], ARGV[2]

local busy = redis.call('EXISTS', lock) == 1 and redis.call('HEXISTS', lock, owner) == 0
if busy then
    return redis.call('PTTL', lock)
end
redis.call('HINCRBY', lock, owner, 1)
redis.call('PEXPIRE', lock, lease)
return nil

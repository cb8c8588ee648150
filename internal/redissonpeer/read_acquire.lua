-- Take the read half of a lock for an owner, or add a hold if the owner already has it.
--
-- KEYS[1] lock: hash with mode, and owner -> number of holds
-- KEYS[2] prefix of the owner's timeout keys; the number of the hold follows
-- ARGV[1] lease in ms
-- ARGV[2] owner's field
-- ARGV[3] the same owner's field of the write half
--
-- Returns nil if the owner has the read half now, else the lock's PTTL.

local lock, timeouts = KEYS[1], KEYS[2]
local lease, field, writer = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local mode = redis.call('HGET', lock, 'mode')
if mode == 'write' and redis.call('HEXISTS', lock, writer) == 0 then
    return redis.call('PTTL', lock)
end
if not mode then redis.call('HSET', lock, 'mode', 'read') end
local n = redis.call('HINCRBY', lock, field, 1)
redis.call('SET', timeouts .. ':' .. n, 1)
redis.call('PEXPIRE', timeouts .. ':' .. n, lease)
redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), lease))
return nil

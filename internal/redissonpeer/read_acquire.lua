-- Take the read half for an owner, or take it once more.
--
-- KEYS[1] lock: hash with mode, and owner -> number of holds
-- KEYS[2] where the owner's timeout keys begin; their number follows
-- ARGV[1] lease in ms
-- ARGV[2] owner's field
-- ARGV[3] the same owner's field of the write half
--
-- Returns nil if the owner has it now, else the lock's PTTL.

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

-- Carry out an operation of a count-down latch, chosen by its name.
--
-- KEYS[1] latch
-- KEYS[2] channel of the latch
-- ARGV[1] operation
-- ARGV[2] count to set
-- ARGV[3] command to publish with
--
-- Returns the same as Redisson's script for that operation.

local latch, channel = KEYS[1], KEYS[2]
local operation, count, publish = ARGV[1], ARGV[2], ARGV[3]
local zero, new = '0', '1' -- messages

if operation == 'try set' then
    if redis.call('EXISTS', latch) == 1 then
        return 0
    end
    redis.call('SET', latch, count)
    redis.call(publish, channel, new)
    return 1
end
if operation == 'count down' then
    local left = redis.call('DECR', latch)
    if left <= 0 then
        redis.call('DEL', latch)
    end
    if left == 0 then
        redis.call(publish, channel, zero)
    end
    return nil
end
if operation == 'delete' then
    if redis.call('DEL', latch) == 0 then
        return 0
    end
    redis.call(publish, channel, new)
    return 1
end
return tonumber(redis.call('GET', latch) or 0)

-- Carry out one operation of a semaphore. ARGV[1] names the operation.
--
-- KEYS[1] semaphore
-- KEYS[2] channel of the semaphore
-- ARGV[1] operation
-- ARGV[2] number of permits
-- ARGV[3] command to publish with
--
-- Returns the same as Redisson's script for that operation.

local semaphore, channel = KEYS[1], KEYS[2]
local operation, permits, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local value = redis.call('GET', semaphore)
local available = tonumber(value or 0)

if operation == 'try acquire' then
    if not value or available < permits then
        return 0
    end
    redis.call('DECRBY', semaphore, permits)
    return 1
end
if operation == 'release' then
    redis.call(publish, channel, redis.call('INCRBY', semaphore, permits))
    return nil
end
if operation == 'try set' then
    if value then
        return 0
    end
    redis.call('SET', semaphore, permits)
    redis.call(publish, channel, permits)
    return 1
end
if operation == 'add' then
    redis.call('SET', semaphore, available + permits)
    redis.call(publish, channel, available + permits)
    return nil
end
if operation == 'drain' then
    if value then
        redis.call('SET', semaphore, 0)
    end
    return available
end
return available

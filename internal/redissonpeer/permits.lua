-- Carry out one operation of a semaphore whose permits expire. ARGV[1] names the operation.
--
-- KEYS[1] number of free permits
-- KEYS[2] sorted set of the held permits, with the times at which they expire
-- KEYS[3] channel of the semaphore
-- ARGV[1] operation
-- ARGV[2] the client's clock in ms
-- ARGV[3] command to publish with
-- ARGV[4] to try: the time in ms at which the permits expire; to set or to add: the number of permits
-- ARGV[5] and all that follow: the ids of permits, 16 bytes each
--
-- Returns the same as Redisson's script for that operation.

local free, out, channel = KEYS[1], KEYS[2], KEYS[3]
local operation, now, publish, number = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local never = '922337203685477'

local function tell(n) redis.call(publish, channel, n) end

local function reap(most)
    local expired = redis.call('ZRANGEBYSCORE', out, 0, now, 'LIMIT', 0, most)
    if #expired == 0 then return end
    redis.call('ZREM', out, unpack(expired))
    local n = redis.call('INCRBY', free, #expired)
    if n > 0 then tell(n) end
end

local function permits()
    local list = {}
    for i = 5, #ARGV do list[#list + 1] = ARGV[i] end
    return list
end

local operations = {}

operations['try acquire'] = function()
    local ids = permits()
    reap(#ids)
    if tonumber(redis.call('GET', free) or 0) >= #ids then
        redis.call('DECRBY', free, #ids)
        for _, id in ipairs(ids) do redis.call('ZADD', out, number, id) end
        local life = redis.call('PTTL', free)
        if life > 0 then redis.call('PEXPIRE', out, life) end
        return 'OK'
    end
    local first = redis.call('ZRANGE', out, 0, 0, 'WITHSCORES')
    if first[2] and first[2] ~= never then return ':' .. first[2] end
    return nil
end

operations['release one'] = function()
    local id = permits()[1]
    local expires = redis.call('ZSCORE', out, id)
    if redis.call('ZREM', out, id) == 0 then return 0 end
    tell(redis.call('INCRBY', free, 1))
    return tonumber(expires) <= now and 0 or 1 -- 0 for an expired permit, although it is free now
end

operations['release'] = function()
    local ids = permits()
    for _, id in ipairs(ids) do
        local expires = redis.call('ZSCORE', out, id)
        if not expires or tonumber(expires) <= now then return 0 end
    end
    reap(-1)
    local n = redis.call('ZREM', out, unpack(ids))
    redis.call('INCRBY', free, n)
    tell(n)
    return n
end

operations['available'] = function()
    reap(-1)
    return tonumber(redis.call('GET', free) or 0)
end

operations['all'] = function()
    reap(-1)
    local n = redis.call('GET', free)
    return n and n + redis.call('ZCOUNT', out, 0, '+inf') or 0
end

operations['acquired'] = function()
    reap(-1)
    return redis.call('ZCOUNT', out, 0, '+inf')
end

operations['set'] = function()
    local n = redis.call('GET', free)
    if not n then
        redis.call('SET', free, number)
    else
        local all = n + redis.call('ZCOUNT', out, 0, '+inf')
        if all == tonumber(number) then return nil end
        redis.call('INCRBY', free, number - all)
    end
    tell(number)
    return nil
end

operations['try set'] = function()
    if redis.call('EXISTS', free) == 1 then return 0 end
    redis.call('SET', free, number)
    tell(number)
    return 1
end

operations['add'] = function()
    redis.call('SET', free, (redis.call('GET', free) or 0) + number)
    if tonumber(number) > 0 then tell(number) end
    return nil
end

return operations[operation]()

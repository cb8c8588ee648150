-- fenced_inspect: read the state of a fenced lock at one instant.
--
-- KEYS[1] lock    hash    {name}
-- KEYS[2] counter string  redisson_lock_token:{name}
--
-- Returns {{ttl in ms or -1, field, value, field, value, ...} or {} (free), {}, last token or '0'}
local lock, counter = KEYS[1], KEYS[2]

local fields = redis.call('hgetall', lock)
if #fields > 0 then table.insert(fields, 1, redis.call('pttl', lock)) end
return {fields, {}, redis.call('get', counter) or '0'}

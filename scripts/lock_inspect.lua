-- lock_inspect: read the state of a lock at one instant.
--
-- KEYS[1] lock hash  {name}
--
-- Returns {ttl in ms or -1, field, value, field, value, ...} | {} (free)
local lock = KEYS[1]

local fields = redis.call('hgetall', lock)
if #fields == 0 then return {} end
table.insert(fields, 1, redis.call('pttl', lock))
return fields

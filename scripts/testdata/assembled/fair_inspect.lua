-- fair_inspect: read the state of a fair lock at one instant.
--
-- KEYS[1] lock  hash  {name}
-- KEYS[2] queue list  redisson_lock_queue:{name}
--
-- Returns {{ttl in ms or -1, field, value, field, value, ...} or {} (free), {owner field, ...} the queue, head first}
local lock, queue = KEYS[1], KEYS[2]

local fields = redis.call('hgetall', lock)
if #fields > 0 then table.insert(fields, 1, redis.call('pttl', lock)) end
return {fields, redis.call('lrange', queue, 0, -1)}

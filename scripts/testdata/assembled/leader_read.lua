-- leader_read: read who leads an election: who has written that last, if its lock is still held.
--
-- KEYS[1] lock   hash {name}
-- KEYS[2] leader hash holdfast_leader:{name}
--
-- Returns {token, runtime, value, since in ms of the server's time} | nil (nobody leads, or has not said so yet)
local lock, leader = KEYS[1], KEYS[2]

local grant = redis.call('hget', leader, 'grant')
if not grant or redis.call('hexists', lock, grant) == 0 then return nil end
local read = {}
for i, field in ipairs({'token', 'runtime', 'value', 'since'}) do read[i] = redis.call('hget', leader, field) end
return read

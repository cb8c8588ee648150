-- leader_read: read the leader of an election. The leader is the last grant that announced itself, if it still holds the election's lock.
--
-- KEYS[1] lock   hash {name}
-- KEYS[2] leader hash holdfast_leader:{name}
--
-- Returns {token, runtime, value, since in ms of the server's time} | nil (there is no leader, or it has not announced itself)
local lock, leader = KEYS[1], KEYS[2]

local grant = redis.call('hget', leader, 'grant')
if not grant or redis.call('hexists', lock, grant) == 0 then return nil end
local read = {}
for i, field in ipairs({'token', 'runtime', 'value', 'since'}) do read[i] = redis.call('hget', leader, field) end
return read

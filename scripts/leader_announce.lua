-- leader_announce: write the leader of an election if its grant still holds the lock. If the leader is new, notify the watchers.
--
-- KEYS[1] lock    hash    {name}
-- KEYS[2] leader  hash    holdfast_leader:{name}
-- KEYS[3] channel channel holdfast_leader:{name}
-- ARGV[1] token   fencing token of the term
-- ARGV[2] grant   owner field of the term's lock, runtimeUUID:number
-- ARGV[3] runtime UUID
-- ARGV[4] value   text that the leader publishes about itself
-- ARGV[5] keep    ms for which the hash is kept
-- ARGV[6] publish PUBLISH or SPUBLISH
--
-- Returns 1 (written) | 0 (this grant does not hold the lock)
local lock, leader, channel = KEYS[1], KEYS[2], KEYS[3]
local token, grant, runtime, value, keep, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if redis.call('hexists', lock, grant) == 0 then return 0 end
if redis.call('hget', leader, 'grant') ~= grant then
  local t = redis.call('time')
  local since = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
  redis.call('hset', leader, 'token', token, 'grant', grant, 'runtime', runtime, 'value', value, 'since', since)
  redis.call(publish, channel, token)
end
redis.call('pexpire', leader, keep)
return 1

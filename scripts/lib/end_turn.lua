-- end_turn: let other processes go first at the end of a turn. The argument `idlers` is the number of subscribers that do not want the lock. If it
-- is '-1', the turn does not end, and end_turn does nothing. Otherwise end_turn publishes the message of a release. If more than `idlers`
-- subscribers receive it, some process waits: end_turn releases the lock and returns the number of receivers. If not, nobody waits: the lock stays
-- held and can be passed on, and end_turn returns nil.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end

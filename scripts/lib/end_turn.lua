-- end_turn: let other processes go first at the end of a turn. It publishes the message of a release. If more subscribers than idlers
-- receive it, end_turn releases the lock and returns their number. Otherwise nobody waits, so the lock stays held and can be passed on, and
-- end_turn returns nil. If idlers is '-1', the turn does not end.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end

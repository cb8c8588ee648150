-- end_turn: let other processes go first at the end of a turn. idlers is the number of subscribers that do not want the lock, or '-1' if the
-- turn does not end. end_turn publishes the message of a release. If more subscribers than idlers receive it, end_turn releases the lock and
-- returns their number. Otherwise nobody waits, so the lock stays held and can be passed on, and end_turn returns nil.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end

-- end_turn: let other processes go first at the end of a turn. All subscribers are notified of a release. If there are more of them
-- than idlers, the lock is released: returns the number of subscribers. Otherwise the lock stays and can be passed on: returns nil.
-- idlers '-1': the turn does not end.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end

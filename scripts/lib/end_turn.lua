-- end_turn: others go first when a process has had its turn. All who listen are told of a release, and if they are more than the
-- idlers, it is one: returns how many were told. Else the lock is still there, to be handed on. idlers '-1': it is no turn's end.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end

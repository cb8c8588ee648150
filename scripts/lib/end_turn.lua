-- end_turn: let waiters of other processes acquire the lock at the end of a turn. The argument `idlers` is the number of subscribers that do not want
-- the lock, or '-1' if the turn continues. If the turn continues, end_turn does nothing. At the end of a turn, end_turn publishes the message of a
-- release. If more than `idlers` subscribers receive the message, another process waits: end_turn releases the lock and returns the number of
-- receivers. If no other process waits, end_turn returns nil. The grant then still holds the lock and can pass it on.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end

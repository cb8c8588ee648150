-- end_turn: let waiters of other processes acquire the lock at the end of a turn. The argument `idlers` is the number of subscribers that do not want
-- the lock. It is '-1' if the turn does not end; end_turn then does nothing. Otherwise end_turn publishes the message of a release. If more than
-- `idlers` subscribers receive the message, at least one process waits: end_turn releases the lock and returns the number of receivers. If not, no
-- other process waits: end_turn returns nil, and the grant still holds the lock and can pass it on.
local function end_turn(lock, grant, channel, publish, idlers)
  if idlers == '-1' then return nil end
  local told = redis.call(publish, channel, '0')
  if told <= tonumber(idlers) then return nil end
  redis.call('hdel', lock, grant)
  return told
end

-- subscribers: the number of subscribers of a channel; 0 if the user lacks the right to ask. An error is not needed: the number only
-- decides who goes first. Among many subscribers a newcomer also gets a place, from 1 to their number; 0: it may choose its place. The hash
-- CHANNEL:places has the place that was given last, so processes that begin to wait at the same time get different ones.
local function subscribers(channel)
  local n = redis.pcall('pubsub', 'numsub', channel)[2] or 0
  if n < 64 then return n, 0 end
  local places = channel .. ':places'
  local last = string.match(redis.pcall('hgetall', places)[2] or '', '^%d+$')
  local place = (tonumber(last) or 0) % n + 1
  if type(redis.pcall('hset', places, 'last', place)) == 'table' then return n, 0 end
  redis.pcall('pexpire', places, 10000)
  return n, place
end

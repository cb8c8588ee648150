-- subscribers: the number of subscribers of a channel; 0 if the user lacks the right to ask. An error is not needed: the number only
-- decides who goes first.
local function subscribers(channel)
  return redis.pcall('pubsub', 'numsub', channel)[2] or 0
end

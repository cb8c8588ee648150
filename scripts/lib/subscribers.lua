-- subscribers: how many clients subscribe to a channel; 0 if the user may not ask. It is not worth an error: it only says who goes first.
local function subscribers(channel)
  return redis.pcall('pubsub', 'numsub', channel)[2] or 0
end

-- in_time: nil while server time has not passed not_after (ms), else the error reply LATE with the server time in ms.
-- A copy of an attempt that was held up somewhere must not run after its caller stopped counting on it.
local function in_time(not_after)
  local t = redis.call('time')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  if now > tonumber(not_after) then
    return redis.error_reply('LATE ' .. string.format('%.0f', now))
  end
  return nil
end

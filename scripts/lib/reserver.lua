-- reserver_of returns the runtime that has reserved a semaphore, or "rest" and the runtime whose reservation has ended, or nil if there is
-- neither. If the key holds something else, it returns nil and the error FOREIGN.
local function reserver_of(want)
  local reserver = redis.call('get', want)
  if reserver and not is_runtime(string.gsub(reserver, '^rest ', '')) then
    return nil, redis.error_reply('FOREIGN ' .. want .. ' holds something that is no reservation')
  end
  return reserver, nil
end

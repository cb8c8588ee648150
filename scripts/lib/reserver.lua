-- reserver_of returns who has reserved a semaphore:
--   'RUNTIME'       this runtime has a reservation
--   'rest RUNTIME'  this runtime's reservation has ended, and for a while nobody may reserve
--   false           neither
-- If the key holds something else, it returns nil and the error FOREIGN.
local function reserver_of(want)
  local reserver = redis.call('get', want)
  if reserver and not is_runtime(string.gsub(reserver, '^rest ', '')) then
    return nil, redis.error_reply('FOREIGN ' .. want .. ' holds something that is no reservation')
  end
  return reserver, nil
end

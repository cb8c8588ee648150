-- reserver_of returns who has reserved a semaphore:
--   'RUNTIME'       the runtime with this UUID has a reservation
--   'rest RUNTIME'  the reservation of the runtime with this UUID has ended; for a while no runtime may reserve
--   false           neither
-- If the key does not hold a reservation, reserver_of returns nil and the error FOREIGN.
local function reserver_of(want)
  local reserver = redis.call('get', want)
  if reserver and not is_runtime(string.gsub(reserver, '^rest ', '')) then
    return nil, redis.error_reply('FOREIGN ' .. want .. ' holds something that is no reservation')
  end
  return reserver, nil
end

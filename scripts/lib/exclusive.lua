-- holder_of returns the owner field of the holder of an exclusive lock, or nil if the lock is free. Redisson and Holdfast write one field for
-- the holder, with its number of holds. For any other hash, holder_of returns nil and the error FOREIGN, and the hash is not changed.
local function holder_of(lock)
  local fields = redis.call('hlen', lock)
  if fields == 0 then return nil end
  if fields == 1 then
    local hold = redis.call('hgetall', lock)
    if is_owner(hold[1]) and string.find(hold[2], '^[1-9]%d*$') then return hold[1] end
  end
  local what = redis.call('hexists', lock, 'mode') == 1 and 'a read/write lock or another hash' or 'a hash that is no lock'
  return nil, redis.error_reply('FOREIGN the key holds ' .. what)
end

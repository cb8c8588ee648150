-- foreign_hash: the error of a hash that is no lock: every field of a lock counts holds. Nobody's data is deleted for a lock.
local function foreign_hash(lock)
  local fields = redis.call('hgetall', lock)
  for i = 2, #fields, 2 do
    if not tonumber(fields[i]) then return redis.error_reply('FOREIGN the key holds a hash that is no lock') end
  end
  return nil
end

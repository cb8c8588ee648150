-- timeouts: each hold of a reader has a timeout key of its own, which ends with the hold's lease. timeouts is what all of their names
-- begin with, {name}: and comes from KEYS, because the keys that a client names may have got a prefix on their way.

-- timeouts_of lists the timeout keys of all readers but one. The holds of a reader are numbered from 1.
local function timeouts_of(lock, timeouts, but)
  local keys, fields = {}, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    for n = fields[i] ~= but and tonumber(fields[i + 1]) or 0, 1, -1 do
      keys[#keys + 1] = timeouts .. fields[i] .. ':rwlock_timeout:' .. n
    end
  end
  return keys
end

-- longest is for how many ms at most one of the readers goes on, but for one of them; 0: all have died.
local function longest(lock, timeouts, but)
  local most = 0
  for _, timeout in ipairs(timeouts_of(lock, timeouts, but)) do
    most = math.max(most, redis.call('pttl', timeout))
  end
  return most
end

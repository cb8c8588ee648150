-- timeouts: each hold of a reader has its own timeout key, which expires with the lease of the hold. The argument `timeouts` is the beginning of the
-- names of these keys, "{name}:". Scripts get this beginning in KEYS, although it is not a key. So if a hook of the client adds a prefix to all KEYS,
-- the hook adds the prefix here as well.

-- timeouts_of lists the timeout keys of all readers except the reader `but`. The holds of a reader are numbered from 1.
local function timeouts_of(lock, timeouts, but)
  local keys, fields = {}, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    for n = fields[i] ~= but and tonumber(fields[i + 1]) or 0, 1, -1 do
      keys[#keys + 1] = timeouts .. fields[i] .. ':rwlock_timeout:' .. n
    end
  end
  return keys
end

-- longest returns the longest remaining lease in ms of all readers except the reader `but`. It is 0 if all these leases have expired.
local function longest(lock, timeouts, but)
  local most = 0
  for _, timeout in ipairs(timeouts_of(lock, timeouts, but)) do
    most = math.max(most, redis.call('pttl', timeout))
  end
  return most
end

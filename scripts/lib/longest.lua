-- longest: for how many ms at most one of the readers goes on, but for one of them. Each hold has a timeout key of its own, numbered
-- from 1; 0: all have died. prefix is {name}.
local function longest(lock, prefix, but)
  local most, fields = 0, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    local holds = fields[i] ~= but and tonumber(fields[i + 1]) or 0
    for n = holds, 1, -1 do
      most = math.max(most, redis.call('pttl', prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. n))
    end
  end
  return most
end

-- read_write: mode_of returns the mode of a read/write lock and one of its holders, or nil if the lock is free. Redisson and Holdfast write a field
-- for the mode, and a field for each holder with the number of its holds. The name of the writer's field ends in ":write". For any other hash,
-- mode_of returns nil, nil and the error FOREIGN, and does not change the hash. mode_of checks only a few fields, so its cost does not depend on the
-- number of readers.
local function holder_among(fields)
  local holder
  for i = 1, #fields, 2 do
    if fields[i] ~= 'mode' then
      holder = fields[i]
      if not string.find(fields[i + 1], '^[1-9]%d*$') then return nil end
      if not is_owner(holder) and not (string.sub(holder, -6) == ':write' and is_owner(string.sub(holder, 1, -7))) then return nil end
    end
  end
  return holder
end

local function mode_of(lock)
  local mode, some = redis.call('hget', lock, 'mode'), redis.call('hrandfield', lock, 4, 'withvalues')
  if #some == 0 then return nil end
  local holder = (mode == 'read' or mode == 'write') and holder_among(some)
  if holder then return mode, holder end
  return nil, nil, redis.error_reply('FOREIGN the key holds a hash that is no read/write lock')
end

local function busy(lock, holder)
  demand(lock, holder)
  return {redis.call('pttl', lock), holder}
end

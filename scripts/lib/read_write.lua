-- read_write: the mode of a read/write lock: nil (free), 'read', 'write', or 'other' (the key holds something else).
local function mode_of(lock)
  local mode = redis.call('hget', lock, 'mode')
  if mode == 'read' or mode == 'write' then return mode end
  return redis.call('exists', lock) == 1 and 'other' or nil
end

local function not_read_write()
  return redis.error_reply('FOREIGN the key holds an exclusive lock or another hash')
end

local function busy(lock, want_holder)
  local holder = ''
  if want_holder == '1' then
    for _, field in ipairs(redis.call('hkeys', lock)) do
      if field ~= 'mode' then holder = field end
    end
  end
  return {redis.call('pttl', lock), holder}
end

-- demand: tell the runtime of a holder that its lock is wanted. Only the runtimes with odd grant numbers may keep a released lock, and
-- listen. freed 'freed ': it has just been released by force. It is not worth an error: without it, such a lock is free a little later.
local function demand(lock, holder, freed)
  local runtime = string.match(holder, '^(.*):%d*[13579]:?%a*$')
  if runtime then redis.pcall('publish', 'holdfast_demand:' .. runtime, (freed or '') .. holder .. ' ' .. lock) end
end

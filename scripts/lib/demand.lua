-- demand: tell the runtime of a holder that its lock is wanted. Only runtimes with odd grant numbers may keep a released lock, so only they
-- subscribe, and no other runtime is told. The argument `freed` is 'freed ' if the lock has just been released by force; otherwise it is nil. A
-- failure is ignored, because without the message the lock only becomes free a little later.
local function demand(lock, holder, freed)
  local runtime = string.match(holder, '^(.*):%d*[13579]:?%a*$')
  if runtime then redis.pcall('publish', 'holdfast_demand:' .. runtime, (freed or '') .. holder .. ' ' .. lock) end
end

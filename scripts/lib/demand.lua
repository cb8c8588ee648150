-- demand: tell the runtime of a holder that another process wants the lock. A grant number is odd if the runtime may keep a released lock
-- (Options.Linger). Only such runtimes subscribe, so demand publishes nothing for an even number. The argument `freed` is 'freed ' if the lock has
-- just been released by force, and otherwise nil. demand ignores a failure: without the message, the lock only becomes free a little later.
local function demand(lock, holder, freed)
  local runtime = string.match(holder, '^(.*):%d*[13579]:?%a*$')
  if runtime then redis.pcall('publish', 'holdfast_demand:' .. runtime, (freed or '') .. holder .. ' ' .. lock) end
end

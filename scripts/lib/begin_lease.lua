-- begin_lease: the TTL of a lock that this script has just taken. A user who has no right to PEXPIRE would take a lock without an
-- end, for Redis does not roll a script back: then the lock is given back, and the error is that of the refusal.
local function begin_lease(lock, lease)
  if type(redis.pcall('pexpire', lock, lease)) == 'table' then
    redis.call('del', lock)
    redis.call('pexpire', lock, lease)
  end
end

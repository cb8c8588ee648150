-- begin_lease: set the TTL of a lock that this script has just taken. Redis does not roll a script back, so without the right to
-- PEXPIRE a user would hold a lock that never expires. In that case the lock is released, and the error is that of the refusal.
local function begin_lease(lock, lease)
  if type(redis.pcall('pexpire', lock, lease)) == 'table' then
    redis.call('del', lock)
    redis.call('pexpire', lock, lease)
  end
end

-- fair_release: free the lock if this grant holds it. The heir is the first waiter of this runtime. If the heir is the head of the queue,
-- give the heir the lock. If not, wake the head of the queue and the waiters of other kinds of lock.
--
-- There is one exception. If the turn of this runtime ends and there are waiters of other kinds, wake the heir and these waiters instead.
-- If the heir got the lock every time, the waiters of other kinds would never find the lock free.
--
-- If this grant does not hold the lock but waits for it, remove the grant from the queue. If the grant was the head, the next
-- waiter becomes the head. If this new head is the heir and the lock is free, give the heir the lock. If not, wake the new head, so that
-- the new head learns its place.
--
-- If `keep` is not 0, the lock does not become free: it stays taken for that time, with `nobody` as the holder (see lock_keep).
--
-- A retry changes nothing, except that it restarts the lease of an heir that has the lock. At maxmemory, Redis refuses a write that needs
-- memory, unless the script has already made another write. So HDEL comes first: it needs no memory. Redis deletes a hash when its last field
-- is deleted.
--
-- KEYS[1] lock       hash     {name}
-- KEYS[2] queue      list     redisson_lock_queue:{name}
-- KEYS[3] timeouts   zset     redisson_lock_timeout:{name}
-- KEYS[4] waiting    hash     holdfast_waiting:{name}
-- KEYS[5] channel    channel  redisson_lock__channel:{name}, ":owner" follows
-- KEYS[6] next_lock  hash     the lock of the next call, in a bundle
-- ARGV[1] grant      owner field, runtimeUUID:number
-- ARGV[2] publish    PUBLISH or SPUBLISH
-- ARGV[3] heir       owner field of this runtime's first waiter, or ''
-- ARGV[4] heir_lease ms
-- ARGV[5] wait       ms for which a place in the queue is kept
-- ARGV[6] keep       ms for which the lock stays taken | 0
-- ARGV[7] nobody     owner field that no grant has; the holder while the lock stays taken
-- ARGV[8] turn_ends  1 | 0
--
-- Returns the number of subscribers that were notified | {held, heir} (the heir has the lock now; held is 1 if this call has taken the
-- lock from this grant, else 0) | nil (this grant does not hold the lock)
local lock, queue, timeouts, waiting, channel, next_lock = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local grant, publish, heir, heir_lease, wait = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local keep, nobody, turn_ends = ARGV[6], ARGV[7], ARGV[8]
-- @include lib/begin_lease.lua
-- @include lib/owner.lua
-- @include lib/fair_queue.lua

local function wake(head)
  if not head then return 0 end
  return redis.call(publish, channel .. ':' .. head, '0')
end

local held = redis.call('hdel', lock, grant) == 1
local kept = held and keep ~= '0'
if kept then
  redis.call('hset', lock, nobody, 1)
  begin_lease(lock, keep)
end
local q, now = queue_of(queue, timeouts, waiting), server_now()
local left = not held and q and redis.call('zscore', timeouts, grant) and leave(q, grant)
if q and next_lock ~= lock then close_gaps(q, wait) end -- otherwise the next call does it, for the same queue
local head = q and (held or left) and drop_stale(q, now)
local inherits = head and head == heir and not kept and (held or redis.call('exists', lock) == 0)
local others = inherits and held and turn_ends == '1' and redis.call(publish, channel, '0')
if inherits and (others or 0) == 0 then
  take(lock, q, heir, heir_lease, wait)
  return {held and 1 or 0, heir}
end
local told = wake(head)
if held then return told + (others or redis.call(publish, channel, '0')) end
if heir ~= '' and redis.call('hexists', lock, heir) == 1 then
  if redis.call('pttl', lock) < tonumber(heir_lease) then redis.call('pexpire', lock, heir_lease) end
  return {0, heir}
end
return nil

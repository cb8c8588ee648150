-- fair_force_release: free the lock, whoever holds it, and wake the next waiter in the queue and the waiters of other kinds of
-- lock. It must not be retried, because a retry could end the lease of the next holder. For the same reason a delayed duplicate is
-- refused. If the outcome is unknown, the caller gets an error that says so.
--
-- KEYS[1] lock      hash     {name}
-- KEYS[2] queue     list     redisson_lock_queue:{name}
-- KEYS[3] timeouts  zset     redisson_lock_timeout:{name}
-- KEYS[4] waiting   hash     holdfast_waiting:{name}
-- KEYS[5] channel   channel  redisson_lock__channel:{name}, ":owner" follows
-- ARGV[1] publish   PUBLISH or SPUBLISH
-- ARGV[2] not_after server time in ms, after which the attempt is refused
--
-- Returns {holder} (it was held) | 0 (it was free) | error LATE ms | error FOREIGN text
local lock, queue, timeouts, waiting, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local publish, not_after = ARGV[1], ARGV[2]
-- @include lib/in_time.lua
-- @include lib/owner.lua
-- @include lib/exclusive.lua
-- @include lib/begin_lease.lua
-- @include lib/fair_queue.lua
-- @include lib/demand.lua

local late = in_time(not_after)
if late then return late end
local holder, foreign = holder_of(lock)
if foreign then return foreign end
if not holder then return 0 end
redis.call('del', lock)
local q = queue_of(queue, timeouts, waiting)
local head = q and drop_stale(q, server_now())
if head then redis.call(publish, channel .. ':' .. head, '0') end
redis.call(publish, channel, '0')
demand(lock, holder, 'freed ')
return {holder}

-- fair_acquire: take the lock for a grant if the lock is free and no waiter is ahead of the grant; else put the grant into the queue.
--
-- If the grant holds the lock already, a retry is granted again, and the number of holds stays 1. If the grant is in the queue, a retry keeps
-- its place. If that place was lost, the script only reports the loss. It must not put the grant into the queue again in the same call: if the
-- reply got lost, the next retry would find the new place, and the waiter would never learn that it had lost the old one.
--
-- KEYS[1] lock        hash  {name}
-- KEYS[2] queue       list  redisson_lock_queue:{name}
-- KEYS[3] timeouts    zset  redisson_lock_timeout:{name}
-- KEYS[4] waiting     hash  holdfast_waiting:{name}, maps a runtime to the server time in ms until which the runtime is known to live
-- ARGV[1] grant       owner field, runtimeUUID:number
-- ARGV[2] lease       ms
-- ARGV[3] not_after   server time in ms, after which the attempt is refused
-- ARGV[4] place       try (do not queue) | new | kept (the grant should be in the queue; if not, its place was lost)
-- ARGV[5] wait        ms for which a place in the queue is kept, Redisson's fairLockWaitTimeout
-- ARGV[6] runtime     UUID of this runtime
-- ARGV[7] stay        ms from now for which this runtime is known to live. `waiting` is updated when a grant joins the queue, or when the
--                     last update is more than stay/32 ago
--
-- Returns grant (granted) | {ttl, holder, queued, next} (busy) | error LATE ms | error FOREIGN text
--   ttl     ms, or -1 if the lock is free or has no TTL
--   holder  owner field, or '' if the lock is free
--   queued  0 if the grant is not in the queue; 1 if it was in the queue before; the server time in microseconds if it has joined just now
--   next    the head of the queue in two cases: this grant is the head, or the lock is free and the head belongs to this runtime; else ''
local lock, queue, timeouts, waiting = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local grant, lease, not_after = ARGV[1], ARGV[2], ARGV[3]
local place, wait, runtime, stay = ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
-- @include lib/in_time.lua
-- @include lib/begin_lease.lua
-- @include lib/owner.lua
-- @include lib/exclusive.lua
-- @include lib/fair_queue.lua
-- @include lib/demand.lua

local late = in_time(not_after)
if late then return late end
local holder, foreign = holder_of(lock)
if foreign then return foreign end
local q, foreign = queue_of(queue, timeouts, waiting)
if foreign then return foreign end
local now = server_time
local head = drop_stale(q, now)
local ttl = redis.call('pttl', lock)
if ttl == -2 and (not head or head == grant) then
  take(lock, q, grant, lease, wait)
  return grant
end
if holder == grant then
  if ttl < tonumber(lease) then redis.call('pexpire', lock, lease) end
  return grant
end
if holder then demand(lock, holder) end

local queued, score = 0, redis.call('zscore', timeouts, grant)
if place == 'new' or score and place == 'kept' then
  queued = 1
  local joins, before = not score, tonumber(score)
  if joins then
    local last = redis.call('lindex', queue, -1)
    local ahead = last and redis.call('zscore', timeouts, last)
    score = (ahead and tonumber(ahead) or now + math.max(ttl, 0)) + wait
    redis.call('rpush', queue, grant)
    head = head or grant
    local t = redis.call('time')
    queued = t[1] * 1000000 + t[2]
  end
  score = math.max(tonumber(score), now + stay + 10000)
  if score ~= before then redis.call('zadd', timeouts, string.format('%.0f', score), grant) end
  if joins or (q.till[runtime] or 0) < now + stay - stay / 32 then -- otherwise another waiter has noted this just now
    redis.call('hset', waiting, runtime, string.format('%.0f', now + stay))
    redis.call('pexpire', waiting, string.format('%.0f', math.max(q.latest, score) - now + stay + 10000))
  end
end
local ours = ttl == -2 and head and string.sub(head, 1, #runtime + 1) == runtime .. ':'
return {math.max(ttl, -1), holder or '', queued, (ours or head == grant) and head or ''}

-- fair_force_release: free the lock whoever holds it, and wake the next in the queue. Not repeatable: a repeat could hit the next
-- holder, so a copy that comes late is refused and an unknown outcome is reported as such.
--
-- KEYS[1] lock      hash     {name}
-- KEYS[2] queue     list     redisson_lock_queue:{name}
-- KEYS[3] timeouts  zset     redisson_lock_timeout:{name}
-- KEYS[4] waiting   hash     holdfast_waiting:{name}
-- KEYS[5] channel   channel  redisson_lock__channel:{name}, ":owner" follows
-- ARGV[1] publish   PUBLISH or SPUBLISH
-- ARGV[2] not_after ms of server time; later, the attempt is refused
--
-- Returns 1 (it was held) | 0 (it was free) | error LATE ms | error FOREIGN text
local lock, queue, timeouts, waiting, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local publish, not_after = ARGV[1], ARGV[2]
-- in_time: nil while server time has not passed not_after (ms), else the error reply LATE with the server time in ms.
-- A copy of an attempt that was held up somewhere must not run after its caller stopped counting on it.
local server_time
local function in_time(not_after)
  if not server_time then -- a script is one instant, also for many locks
    local t = redis.call('time')
    server_time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if server_time > tonumber(not_after) then
    return redis.error_reply('LATE ' .. string.format('%.0f', server_time))
  end
  return nil
end
-- foreign_hash: the error of a hash that is no lock: every field of a lock counts holds. Nobody's data is deleted for a lock.
local function foreign_hash(lock)
  local fields = redis.call('hgetall', lock)
  for i = 2, #fields, 2 do
    if not tonumber(fields[i]) then return redis.error_reply('FOREIGN the key holds a hash that is no lock') end
  end
  return nil
end
-- begin_lease: the TTL of a lock that this script has just taken. A user who has no right to PEXPIRE would take a lock without an
-- end, for Redis does not roll a script back: then the lock is given back, and the error is that of the refusal.
local function begin_lease(lock, lease)
  if type(redis.pcall('pexpire', lock, lease)) == 'table' then
    redis.call('del', lock)
    redis.call('pexpire', lock, lease)
  end
end
-- fair_queue: who waits for a fair lock. Redisson's part is a list of owner fields and, for each, the ms when it may be dropped;
-- ours is a hash that says until when a runtime with waiters is known to live. Times are the server's.
local function server_now()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- lives: nobody knows of runtimes that say nothing of themselves, which are Redisson's.
local function lives(owner, waiting, now)
  local runtime = string.match(owner, '^(.*):')
  local till = runtime and redis.call('hget', waiting, runtime)
  return not till or tonumber(till) > now
end

-- tidy leaves nothing of ours behind when nobody waits.
local function tidy(queue, waiting)
  if redis.call('exists', queue) == 0 then redis.call('del', waiting) end
end

-- drop_stale takes away waiters at the head that have gone, and returns the head that is left. A score may come from a clock that
-- is wrong by some seconds.
local function drop_stale(queue, timeouts, waiting, now)
  for _ = 1, 1000 do
    local head = redis.call('lindex', queue, 0)
    if not head then return nil end
    local score = redis.call('zscore', timeouts, head)
    if lives(head, waiting, now) and not (score and tonumber(score) + 10000 <= now) then return head end
    redis.call('lpop', queue)
    redis.call('zrem', timeouts, head)
    tidy(queue, waiting)
  end
  return redis.call('lindex', queue, 0)
end

-- move_up brings the scores of waiters forward when somebody before them has gone, as Redisson does.
local function move_up(timeouts, owners, wait)
  for _, owner in ipairs(owners) do
    if redis.call('zscore', timeouts, owner) then redis.call('zincrby', timeouts, -tonumber(wait), owner) end
  end
end

-- take gives the lock to a grant that is the head, or to whom nobody is before.
local function take(lock, queue, timeouts, waiting, grant, lease, wait)
  if redis.call('lindex', queue, 0) == grant then redis.call('lpop', queue) end
  redis.call('zrem', timeouts, grant)
  move_up(timeouts, redis.call('zrange', timeouts, 0, -1), wait)
  redis.call('hset', lock, grant, 1)
  begin_lease(lock, lease)
  tidy(queue, waiting)
end

-- leave takes a waiter out of the queue; true if it was the head.
local function leave(queue, timeouts, waiting, grant, wait)
  local place = redis.call('lpos', queue, grant, 'rank', -1) -- mostly those leave who came last
  if place then
    local behind = redis.call('lrange', queue, place + 1, -1)
    redis.call('lrem', queue, -1, grant) -- first, for maxmemory: it frees some
    move_up(timeouts, behind, wait)
  end
  redis.call('zrem', timeouts, grant)
  tidy(queue, waiting)
  return place == 0
end

local late = in_time(not_after)
if late then return late end
if redis.call('exists', lock) == 0 then return 0 end
if redis.call('hexists', lock, 'mode') == 1 then
  return redis.error_reply('FOREIGN the key holds a read/write lock')
end
local foreign = foreign_hash(lock)
if foreign then return foreign end
redis.call('del', lock)
local head = drop_stale(queue, timeouts, waiting, server_now())
if head then redis.call(publish, channel .. ':' .. head, '0') end
return 1

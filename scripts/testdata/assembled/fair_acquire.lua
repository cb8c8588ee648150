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
-- in_time returns nil until the server time has passed not_after (ms), and after that the error reply LATE with the server time in ms. A
-- delayed duplicate of an attempt must not run after its caller has given the attempt up.
local server_time
local function in_time(not_after)
  if not server_time then -- time stands still during a script, even one for many locks
    local t = redis.call('time')
    server_time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if server_time > tonumber(not_after) then
    return redis.error_reply('LATE ' .. string.format('%.0f', server_time))
  end
  return nil
end
-- begin_lease: set the TTL of a lock that this script has just taken. If Redis refuses that, for example because the user lacks the right
-- to PEXPIRE, delete the lock and fail with the same refusal: Redis does not roll the script back, and the lock would never expire.
local function begin_lease(lock, lease)
  if type(redis.pcall('pexpire', lock, lease)) == 'table' then
    redis.call('del', lock)
    redis.call('pexpire', lock, lease)
  end
end
-- owner: the pattern of an owner field. Redisson and Holdfast name a holder or waiter by the UUID of its runtime, a colon and a number.
local owner = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$'
local function is_owner(field) return string.find(field, owner) end
local function is_runtime(uuid) return string.find(uuid .. ':0', owner) end
-- holder_of returns the owner field of the holder of an exclusive lock, or nil if the lock is free. Redisson and Holdfast write one field for
-- the holder, with its number of holds. For any other hash, holder_of returns nil and the error FOREIGN, and the hash is not changed.
local function holder_of(lock)
  local fields = redis.call('hlen', lock)
  if fields == 0 then return nil end
  if fields == 1 then
    local hold = redis.call('hgetall', lock)
    if is_owner(hold[1]) and string.find(hold[2], '^[1-9]%d*$') then return hold[1] end
  end
  local what = redis.call('hexists', lock, 'mode') == 1 and 'a read/write lock or another hash' or 'a hash that is no lock'
  return nil, redis.error_reply('FOREIGN the key holds ' .. what)
end
-- fair_queue: the waiters of a fair lock. Redisson's part is a list of the waiters' owner fields, and a sorted set in which the score of a waiter is
-- the time after which the waiter may be removed. Holdfast adds a hash, which maps each runtime with waiters to the time until which the
-- runtime is known to live. All times are in ms. Holdfast uses the server's clock, and Redisson uses the client's.
local function server_now()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- typed_reply returns a command's reply, or nil if its key has another type. It fails if the command is refused for another reason.
local function typed_reply(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return nil end
  return redis.call(...) -- fails with the same refusal
end

local function not_of_queue(key) return redis.error_reply('FOREIGN ' .. key .. ' holds something that is no part of a queue') end

-- queue_of returns a table about a queue:
--   list, timeouts, waiting  the names of its keys
--   head                     the owner field of the first waiter, or false if there is none
--   latest                   the largest score, or 0
--   till                     a table that maps runtimes to the times until which they are known to live
-- If a key holds something that does not belong to a queue, queue_of returns nil and the error FOREIGN. It does not raise the error: when queue_of
-- runs, the script may have freed the lock already, and must go on.
local function queue_of(list, timeouts, waiting)
  local head, last = typed_reply('lindex', list, 0), typed_reply('zrange', timeouts, -1, -1, 'withscores')
  local runtimes = typed_reply('hgetall', waiting)
  if head == nil or head and not is_owner(head) then return nil, not_of_queue(list) end
  if not last or last[1] and not is_owner(last[1]) then return nil, not_of_queue(timeouts) end
  if not runtimes then return nil, not_of_queue(waiting) end
  local q = {list = list, timeouts = timeouts, waiting = waiting, head = head, till = {}}
  q.latest = tonumber(last[2]) or 0
  for i = 1, #runtimes, 2 do
    local till = tonumber(runtimes[i + 1])
    if not till or not is_runtime(runtimes[i]) then return nil, not_of_queue(waiting) end
    q.till[runtimes[i]] = till
  end
  return q
end

-- lives reports whether the runtime of a waiter lives. A runtime without an entry is presumed to live, because clients of Redisson make no entries.
local function lives(q, owner, now)
  local till = q.till[string.match(owner, '^(.*):')]
  return not till or till > now
end

-- tidy deletes the hash of runtimes if there are no waiters. Redisson does not know this hash, so it would stay.
local function tidy(q)
  if next(q.till) and redis.call('exists', q.list) == 0 then redis.call('del', q.waiting) end
end

-- A waiter that leaves the queue leaves a gap ahead of the waiter behind it. The table `gaps` maps the waiter behind a gap to the size of the gap:
-- the number of waiters that have left there since the last call of close_gaps. All gaps are at the position first_gap or behind it, so close_gaps
-- reads the list from first_gap on. Positions count from 0. If there are no gaps, first_gap is nil.
local gaps, first_gap = {}, nil

-- drop_stale removes up to 1000 dead waiters from the head, and returns the new head. A waiter is dead if its runtime does not live,
-- or if its score is 10 s in the past. The 10 s allow for scores from a clock that is off by some seconds.
--
-- The list and the sorted set have the same members, unless one of the two keys was deleted or evicted. A head without a score is removed as well:
-- its waiter may have left, and then the waiters behind it would wait in vain. If there are scores but no list, the scores are deleted. If a
-- waiter that still waits loses its place or its score here, it queues again at its next attempt.
local function drop_stale(q, now)
  if q.latest > 0 and not q.head then redis.call('del', q.timeouts) end
  for _ = 1, 1000 do
    if not q.head then return nil end
    local score = redis.call('zscore', q.timeouts, q.head)
    if score and lives(q, q.head, now) and tonumber(score) + 10000 > now then break end
    redis.call('lpop', q.list)
    redis.call('zrem', q.timeouts, q.head)
    tidy(q)
    first_gap = first_gap and 0 -- the places have changed
    q.head = redis.call('lindex', q.list, 0)
  end
  return q.head
end

-- move_up lowers the scores of waiters that have moved up because others have left. Like Redisson, it lowers a score by `wait` ms for each place by
-- which the waiter has moved up. The table `moved` maps a waiter to that number of places; if `moved` is nil, all waiters have moved up by one place.
-- A queue may be long, so each command changes at most 500 scores. move_up begins with the lowest scores, so that the order of the waiters never
-- changes.
local function move_up(q, wait, moved)
  local all, scores = redis.call('zrange', q.timeouts, 0, -1, 'withscores'), {}
  for i = 1, #all, 2 do
    local places = not moved and 1 or moved[all[i]]
    if places then
      scores[#scores + 1] = string.format('%.0f', all[i + 1] - places * wait)
      scores[#scores + 1] = all[i]
    end
    if #scores == 1000 or #scores > 0 and i == #all - 1 then
      redis.call('zadd', q.timeouts, unpack(scores))
      scores = {}
    end
  end
end

-- leave removes a waiter from the queue, and leaves a gap. It returns true if the waiter was the head.
local function leave(q, grant)
  local place = redis.call('lpos', q.list, grant, 'rank', -1) -- from the tail: usually the newest waiters leave
  if place then
    redis.call('lrem', q.list, -1, grant) -- first, for maxmemory: a script that has written may also make writes that need memory
    local behind = redis.call('lindex', q.list, place)
    if behind then
      gaps[behind] = (gaps[behind] or 0) + (gaps[grant] or 0) + 1
      first_gap = math.min(first_gap or place, place)
    end
    gaps[grant] = nil
    if place == 0 then q.head = behind end
  end
  redis.call('zrem', q.timeouts, grant)
  tidy(q)
  return place == 0
end

-- close_gaps moves up the waiters behind the gaps. To do so, it reads the queue from the first gap on. A script for many locks (for_each) may remove
-- thousands of waiters from one queue, and should not read the queue after each of them. So if several runs of the script's body in a row are for
-- the same queue, only the last of these runs calls close_gaps.
local function close_gaps(q, wait)
  if not first_gap then return end
  local left, moved = 0, {}
  for _, owner in ipairs(redis.call('lrange', q.list, first_gap, -1)) do
    left = left + (gaps[owner] or 0)
    if left > 0 then moved[owner] = left end
  end
  gaps, first_gap = {}, nil
  move_up(q, wait, moved)
end

-- take gives the lock to a grant that is the head, or has nobody ahead of it.
local function take(lock, q, grant, lease, wait)
  close_gaps(q, wait)
  if q.head == grant then redis.call('lpop', q.list) end
  redis.call('zrem', q.timeouts, grant)
  move_up(q, wait)
  redis.call('hset', lock, grant, 1)
  begin_lease(lock, lease)
  tidy(q)
end
-- demand: tell the runtime of a holder that another process wants the lock. A grant number is odd if the runtime may keep a released lock
-- (Options.Linger). Only such runtimes subscribe, so demand publishes nothing for an even number. The argument `freed` is 'freed ' if the lock has
-- just been released by force, and otherwise nil. demand ignores a failure: without the message, the lock only becomes free a little later.
local function demand(lock, holder, freed)
  local runtime = string.match(holder, '^(.*):%d*[13579]:?%a*$')
  if runtime then redis.pcall('publish', 'holdfast_demand:' .. runtime, (freed or '') .. holder .. ' ' .. lock) end
end

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

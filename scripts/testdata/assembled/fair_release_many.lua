-- fair_release_many: the same as fair_release for many locks; the KEYS of all calls follow each other, and so do the ARGV.
--
-- Returns a list of their replies, in the same order; errors are {'error', text}.
-- for_each: run a script's body once for each lock and collect the replies. KEYS contains the keys of the first lock, then those of the second, and
-- so on; ARGV contains their arguments in the same order. The parameter `keys` is the number of keys of one lock. The body gets two offsets: the
-- number of KEYS and the number of ARGV that belong to earlier locks. If the body fails for a lock, for_each continues with the next lock. The reply
-- for the failed lock is {'error', text}, because not all clients can read an error inside a list. for_each replaces a reply of nil by false, because
-- Redis ends a list at the first nil.
local function for_each(keys, body)
  local n, args, replies = #KEYS / keys, #ARGV / #KEYS * keys, {}
  local function continue()
    for i = #replies, n - 1 do
      local reply = body(i * keys, i * args)
      if type(reply) == 'table' and reply.err then reply = {'error', reply.err} end
      replies[i + 1] = reply or false
    end
  end
  while #replies < n do -- one pcall serves all locks until one of them fails
    local done, failure = pcall(continue)
    if not done and type(failure) ~= 'table' then -- before Redis 7 an error is a text that begins with its position in the script
      failure = {err = string.gsub(failure, '^.-: ?%d+: %-?', '', 1)}
    end
    if not done then replies[#replies + 1] = {'error', failure.err} end
  end
  return replies
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

return for_each(5, function(KEYS_before, ARGV_before)
local lock, queue, timeouts, waiting, channel, next_lock = KEYS[KEYS_before + 1], KEYS[KEYS_before + 2], KEYS[KEYS_before + 3], KEYS[KEYS_before + 4], KEYS[KEYS_before + 5], KEYS[KEYS_before + 6]
local grant, publish, heir, heir_lease, wait = ARGV[ARGV_before + 1], ARGV[ARGV_before + 2], ARGV[ARGV_before + 3], ARGV[ARGV_before + 4], ARGV[ARGV_before + 5]
local keep, nobody, turn_ends = ARGV[ARGV_before + 6], ARGV[ARGV_before + 7], ARGV[ARGV_before + 8]

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
end)

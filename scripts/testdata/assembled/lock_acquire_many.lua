-- lock_acquire_many: the same as lock_acquire for many locks; the KEYS of all calls follow each other, and so do the ARGV.
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
-- demand: tell the runtime of a holder that another process wants the lock. A grant number is odd if the runtime may keep a released lock
-- (Options.Linger). Only such runtimes subscribe, so demand publishes nothing for an even number. The argument `freed` is 'freed ' if the lock has
-- just been released by force, and otherwise nil. demand ignores a failure: without the message, the lock only becomes free a little later.
local function demand(lock, holder, freed)
  local runtime = string.match(holder, '^(.*):%d*[13579]:?%a*$')
  if runtime then redis.pcall('publish', 'holdfast_demand:' .. runtime, (freed or '') .. holder .. ' ' .. lock) end
end
-- crowd: an order for the processes that wait for a lock. A crowd begins when the lock's channel has 64 subscribers. From then on, a process to
-- which a script refuses the lock takes a ticket: the sorted set CHANNEL:crowd maps each waiting runtime to the number of its ticket. 16 consecutive
-- numbers form a row. Releases are published on CHANNEL, and only the processes of the first rows subscribe to it: the rows in front (see
-- last_in_front). The processes of any other row subscribe to CHANNEL:crowd:ROW. A message on that channel calls the row: it is now in front, and
-- its processes subscribe to CHANNEL.
--
-- If a runtime gets the lock before its turn, the runtimes with smaller tickets did not try in time, and may be dead. So the script marks their
-- tickets, at most the first 16. Each mark adds a quarter to the number of the ticket. The fourth mark removes the ticket. When a runtime tries and
-- is refused, the marks of its ticket are removed, because the runtime is not dead, but only late.
--
-- The set decides only the order, so errors are ignored. If the user lacks the right to use the set, no runtime gets a ticket.
local function row_of(ticket) return math.floor((tonumber(ticket) or 0) / 16) end

-- last_in_front returns the last of the rows in front: the row of the 17th runtime of the crowd. If there are fewer runtimes, it returns the row of
-- the last one.
local function last_in_front(crowd)
  return row_of(redis.pcall('zrange', crowd, 16, 16, 'withscores')[2] or redis.pcall('zrange', crowd, -1, -1, 'withscores')[2])
end

-- parts_of reads the argument `report`: CHANNEL; +CHANNEL if the runtime has a ticket; -CHANNEL if it has just had the lock. It returns the mark,
-- the channel, the key of the set of tickets, and the runtime.
local function parts_of(report, grant)
  local mark, channel = string.match(report, '^([+-]?)(.*)$')
  return mark, channel, channel .. ':crowd', string.match(grant, '^(.*):')
end

-- yields reports whether a runtime must not take the free lock, because it has just had the lock and other runtimes have tickets.
local function yields(report, grant)
  local mark, channel, crowd = parts_of(report, grant)
  if mark ~= '-' or (redis.pcall('pubsub', 'numsub', channel)[2] or 0) < 8 then return false end
  return redis.pcall('zrange', crowd, 0, 0)[1] ~= nil
end

-- take_ticket puts the runtime behind all others, and returns its place, from 0. `last` is the last ticket, or nil if there is none. The first ticket
-- is 32, which begins a row. The set expires 10 minutes after its newest row has begun.
local function take_ticket(crowd, runtime, last)
  local ticket = math.floor(last or 31) + 1
  redis.pcall('zadd', crowd, ticket, runtime)
  if ticket % 16 == 0 then redis.pcall('pexpire', crowd, 600000) end
  return redis.pcall('zrank', crowd, runtime)
end

-- join_crowd returns three values:
--   the number of subscribers;
--   the place of the runtime in the crowd, from 1, or 0 if there is no crowd or the user has no right to the set;
--   the ticket of the runtime if the runtime has to wait until its row is called, else 0.
--
-- A runtime whose row is not in front usually waits until the row is called. In three cases it does not wait:
-- 1. Its row is the one behind the rows in front. This row might be called before the runtime has subscribed to the channel of the row.
-- 2. The runtime is one of the first 33 of the crowd. Unless tickets were removed, these runtimes are in the rows in front or in the row behind them.
-- 3. CHANNEL has fewer than 8 subscribers. The more than 16 runtimes in the rows in front should all be subscribers. So most of them have died, and
--    perhaps no runtime is left that calls rows.
local function join_crowd(report, grant)
  local mark, channel, crowd, runtime = parts_of(report, grant)
  local n = redis.pcall('pubsub', 'numsub', channel)[2] or 0
  local place = mark == '+' and redis.pcall('zrank', crowd, runtime)
  if not place then
    if n < 8 then return n, 0, 0 end
    local last = redis.pcall('zrange', crowd, -1, -1, 'withscores')[2]
    if n < 64 and not last then return n, 0, 0 end
    place = redis.pcall('zrank', crowd, runtime) or take_ticket(crowd, runtime, last)
  end
  if type(place) ~= 'number' then return n, 0, 0 end
  local ticket = redis.pcall('zrange', crowd, place, place, 'withscores')[2]
  if place < 16 and (tonumber(ticket) or 0) % 1 > 0 then redis.pcall('zadd', crowd, math.floor(ticket), runtime) end
  if n < 8 or place <= 32 then return n, place + 1, 0 end
  return n, place + 1, row_of(ticket) > last_in_front(crowd) + 1 and math.floor(ticket) or 0
end

-- leave_crowd removes a runtime from the crowd when the runtime gets the lock. It then calls the rows that are now in front and were not before. It
-- calls at most 100 rows, because foreign values in the set may have any score.
local function leave_crowd(report, grant)
  local mark, channel, crowd, runtime = parts_of(report, grant)
  local place = mark == '+' and redis.pcall('zrank', crowd, runtime)
  if type(place) ~= 'number' then return end
  local called = last_in_front(crowd)
  local ahead = place > 0 and redis.pcall('zrange', crowd, 0, math.min(place, 16) - 1, 'withscores') or {}
  for i = 1, #ahead, 2 do
    local ticket = tonumber(ahead[i + 1]) or 0
    if ticket % 1 < 3 / 4 then
      redis.pcall('zadd', crowd, ticket + 1 / 4, ahead[i])
    else
      redis.pcall('zrem', crowd, ahead[i])
    end
  end
  redis.pcall('zrem', crowd, runtime)
  for n = 1, math.min(last_in_front(crowd) - called, 100) do -- counted from 1, so that the loop ends whatever the scores are
    redis.pcall('publish', crowd .. ':' .. called + n, '0')
  end
end

return for_each(1, function(KEYS_before, ARGV_before)
local lock = KEYS[KEYS_before + 1]
local grant, lease, not_after, report = ARGV[ARGV_before + 1], ARGV[ARGV_before + 2], ARGV[ARGV_before + 3], ARGV[ARGV_before + 4]

local late = in_time(not_after)
if late then return late end
local ttl = redis.call('pttl', lock) -- -2: there is no lock
if ttl == -2 and #report > 1 and yields(report, grant) then return {-1, '', join_crowd(report, grant)} end
if ttl ~= -2 then
  local holder, foreign = holder_of(lock)
  if foreign then return foreign end
  if holder ~= grant then
    demand(lock, holder)
    if report == '' then return {ttl, holder} end
    return {ttl, holder, join_crowd(report, grant)} -- three results
  end
end
if ttl < tonumber(lease) then -- a delayed duplicate must not shorten a lease that was prolonged since
  redis.call('hset', lock, grant, 1)
  begin_lease(lock, lease)
end
if #report > 1 then leave_crowd(report, grant) end
return grant
end)

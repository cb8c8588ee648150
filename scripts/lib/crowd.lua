-- crowd: the order of the processes that wait for a lock, once its channel has had 64 subscribers. A process that is refused then takes a
-- ticket: the sorted set CHANNEL:crowd has each runtime with its ticket. 16 tickets make a row. The rows in front subscribe to CHANNEL. Each
-- row further back subscribes to CHANNEL:crowd:row until it is called, so that not every release is sent to all of them.
--
-- A runtime that gets the lock before its turn has found that those ahead did not come, so they may be dead. They are removed when that has
-- happened eight times. The fraction of a ticket counts it, in eighths.
--
-- The order is only a matter of fairness, so errors are ignored: without the rights to the set, nobody gets a ticket.
local function row_of(ticket) return math.floor((tonumber(ticket) or 0) / 16) end

local function parts_of(report, grant)
  local mark, channel = string.match(report, '^([+-]?)(.*)$')
  return mark, channel, channel .. ':crowd', string.match(grant, '^(.*):')
end

-- yields: whether to leave a free lock to the crowd, because the runtime has just had it.
local function yields(report, grant)
  local mark, channel, crowd = parts_of(report, grant)
  if mark ~= '-' or (redis.pcall('pubsub', 'numsub', channel)[2] or 0) < 8 then return false end
  return redis.pcall('zrange', crowd, 0, 0)[1] ~= nil
end

-- refused returns the number of subscribers, the place of the runtime in the crowd, from 1, and its ticket if its row has yet to be called.
-- A place of 0: there is no crowd, or no right to the set.
local function refused(report, grant)
  local mark, channel, crowd, runtime = parts_of(report, grant)
  local n, last = redis.pcall('pubsub', 'numsub', channel)[2] or 0, nil
  local place = mark == '+' and redis.pcall('zrank', crowd, runtime)
  if not place then
    if n < 8 then return n, 0, 0 end
    last = redis.pcall('zrange', crowd, -1, -1, 'withscores')[2]
    if n < 64 and not last then return n, 0, 0 end
    place = redis.pcall('zrank', crowd, runtime)
  end
  if not place then
    local ticket = math.floor(last or 31) + 1
    redis.pcall('zadd', crowd, ticket, runtime)
    if ticket % 16 == 0 then redis.pcall('pexpire', crowd, 600000) end
    place = redis.pcall('zrank', crowd, runtime)
  end
  if type(place) ~= 'number' then return n, 0, 0 end
  if n < 8 or place <= 32 then return n, place + 1, 0 end -- with few subscribers, the calls may have stopped
  local ticket = redis.pcall('zrange', crowd, place, place, 'withscores')[2]
  local called = redis.pcall('zrange', crowd, 16, 16, 'withscores')[2]
  return n, place + 1, row_of(ticket) > row_of(called) + 1 and math.floor(ticket) or 0
end

-- granted removes the runtime from the crowd, and calls the row that now comes within sixteen places of the front.
local function granted(report, grant)
  local mark, channel, crowd, runtime = parts_of(report, grant)
  local place = mark == '+' and redis.pcall('zrank', crowd, runtime)
  if type(place) ~= 'number' then return end
  local called = redis.pcall('zrange', crowd, 16, 16, 'withscores')[2]
  local late = place > 0 and redis.pcall('zrange', crowd, 0, math.min(place, 16) - 1, 'withscores') or {}
  for i = 1, #late, 2 do
    local ticket = late[i + 1] + 1 / 8
    redis.pcall('zadd', crowd, ticket, late[i])
    if ticket % 1 == 0 then redis.pcall('zrem', crowd, late[i]) end
  end
  redis.pcall('zrem', crowd, runtime)
  local front = redis.pcall('zrange', crowd, 16, 16, 'withscores')[2]
  for row = row_of(called) + 1, math.min(row_of(front), row_of(called) + 100) do
    redis.pcall('publish', crowd .. ':' .. row, '0')
  end
end

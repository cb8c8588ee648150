-- permit_release: give a permit back, and tell the waiters. A repeat changes nothing. ZREM comes first: it grows no memory, so this
-- works at maxmemory.
--
-- KEYS[1] permits  string   {name}, how many are free
-- KEYS[2] timeouts zset     {name}:timeout, permit -> ms when it expires
-- KEYS[3] channel  channel  redisson_sc:{name}
-- ARGV[1] id       hexadecimal form of the permit
-- ARGV[2] publish  PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were told | nil (it was not out, or had expired)
local permits, timeouts, channel = KEYS[1], KEYS[2], KEYS[3]
local id, publish = ARGV[1], ARGV[2]
-- permits: those that are out, by expiry in ms. In Redisson's format an expiry comes from some client's clock, so permits of others
-- are given 10 s more; ours, which begin with "hfp1", have the server's time plus 10 s already.
local function server_now()
  local t = redis.call('time')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- bytes is a permit as Redis has it: an id is its hexadecimal form.
local function bytes(id)
  return (string.gsub(id, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end))
end

local function expired(permit, score, now)
  if string.sub(permit, 1, 4) == 'hfp1' then return score <= now end
  return score + 10000 <= now
end

-- reap takes expired permits back and tells the waiters.
local function reap(permits, timeouts, channel, publish, now)
  local list, gone = redis.call('zrangebyscore', timeouts, 0, string.format('%.0f', now), 'withscores', 'limit', 0, 1000), {}
  for i = 1, #list, 2 do
    if expired(list[i], tonumber(list[i + 1]), now) then gone[#gone + 1] = list[i] end
  end
  if #gone == 0 then return end
  redis.call('zrem', timeouts, unpack(gone))
  local free = redis.call('incrby', permits, #gone)
  if free > 0 then redis.call(publish, channel, free) end
end

local permit = bytes(id)
local score = redis.call('zscore', timeouts, permit)
if not score then return nil end
redis.call('zrem', timeouts, permit)
local free, told = redis.call('incrby', permits, 1), 0
if free >= 0 then told = redis.call(publish, channel, free) end -- on a negative number Redisson's listener throws
if expired(permit, tonumber(score), server_now()) then return nil end
return told

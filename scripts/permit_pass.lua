-- permit_pass: exchange a permit for a new one of the same process, with a fresh lease. No permit becomes free, so nobody is
-- notified. A retry finds the new permit in place.
--
-- KEYS[1] permits   string  {name}, the number of free permits
-- KEYS[2] timeouts  zset    {name}:timeout, permit -> its expiry, ms of server time
-- ARGV[1] from      hexadecimal form of the permit that ends
-- ARGV[2] id        hexadecimal form of the permit that begins
-- ARGV[3] lease     ms
-- ARGV[4] not_after server time in ms, after which the attempt is refused
--
-- Returns id (exchanged) | nil (neither permit is held) | error REDUCED text (the semaphore now has fewer permits than are held: release
-- this one) | error LATE ms | error FOREIGN text
local permits, timeouts = KEYS[1], KEYS[2]
local from, id, lease, not_after = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/permits.lua

local late = in_time(not_after)
if late then return late end
local now, old, new = server_now(), bytes(from), bytes(id)
local till = string.format('%.0f', now + lease + 10000)
local there = redis.call('zscore', timeouts, new)
local score = not there and redis.call('zscore', timeouts, old)
if not there and not (score and not expired(old, tonumber(score), now)) then return nil end
local free, foreign = count_of(permits)
if foreign then return foreign end
if not there and (free or 0) < 0 then return redis.error_reply('REDUCED more permits are held than there are') end
if not there or tonumber(there) < tonumber(till) then redis.call('zadd', timeouts, till, new) end
if not there then redis.call('zrem', timeouts, old) end -- only after the new permit was added, so that the key keeps its TTL
return id

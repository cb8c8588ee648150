-- permit_look: whether a permit is out.
--
-- KEYS[1] timeouts zset {name}:timeout, permit -> ms when it expires
-- ARGV[1] id       hexadecimal form of the permit
--
-- Returns 1 | 0
local timeouts = KEYS[1]
local id = ARGV[1]
-- @include lib/count_of.lua
-- @include lib/permits.lua

return redis.call('zscore', timeouts, bytes(id)) and 1 or 0

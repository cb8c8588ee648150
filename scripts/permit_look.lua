-- permit_look: check whether Redis has a permit, even an expired one.
--
-- KEYS[1] timeouts zset {name}:timeout, permit -> its expiry, ms of server time
-- ARGV[1] id       hexadecimal form of the permit
--
-- Returns 1 | 0
local timeouts = KEYS[1]
local id = ARGV[1]
-- @include lib/count_of.lua
-- @include lib/permits.lua

return redis.call('zscore', timeouts, bytes(id)) and 1 or 0

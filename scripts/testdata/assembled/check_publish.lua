-- check_publish: tell something that means nothing on a channel, which every other script of a kind has among its KEYS, too.
--
-- KEYS[1] channel channel
-- ARGV[1] publish PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were told
local channel = KEYS[1]
local publish = ARGV[1]

return redis.call(publish, channel, '')

-- check_publish: publish a meaningless message on a channel. The channel is one of the KEYS, as in the scripts that release locks.
--
-- KEYS[1] channel channel
-- ARGV[1] publish PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were notified
local channel = KEYS[1]
local publish = ARGV[1]

return redis.call(publish, channel, '')

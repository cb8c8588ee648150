-- check_publish: publish a meaningless message on a channel, which is among the KEYS as in all other scripts of a kind.
--
-- KEYS[1] channel channel
-- ARGV[1] publish PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were notified
local channel = KEYS[1]
local publish = ARGV[1]

return redis.call(publish, channel, '')

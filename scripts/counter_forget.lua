-- counter_forget: delete results that are no longer needed. Usually a request deletes the results of earlier requests. This script
-- deletes the results of the last requests, because no later request could delete them.
--
-- KEYS[n] answered string  holdfast_attempt:{name}:<request>, one or more
-- ARGV[1] request  id, runtimeUUID:number
--
-- Returns {request, 0}
local request = ARGV[1]
-- @include lib/forget.lua

forget(1)
return {request, 0}

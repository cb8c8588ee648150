-- counter_forget: delete results that are no longer needed. A sequence of requests does that by itself; this script is for the last
-- of them.
--
-- KEYS[n] answered string  holdfast_attempt:{name}:<request>, one or more
-- ARGV[1] request  id, runtimeUUID:number
--
-- Returns {request, 0}
local request = ARGV[1]
-- @include lib/forget.lua

forget(1)
return {request, 0}

-- counter_read: read the number of a semaphore or latch.
--
-- KEYS[1] counter string  {name}
-- ARGV[1] request id, runtimeUUID:number
--
-- Returns {request, number} (the number is 0 if there is no key) | error FOREIGN text
local counter = KEYS[1]
local request = ARGV[1]
-- @include lib/count_of.lua

local count, foreign = count_of(counter)
if foreign then return foreign end
return {request, count or 0}

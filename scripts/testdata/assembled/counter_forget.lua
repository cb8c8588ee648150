-- counter_forget: delete results that are no longer needed. Usually a request deletes the results of earlier requests. This script
-- deletes the results of the last requests, because no later request could delete them.
--
-- KEYS[n] answered string  holdfast_attempt:{name}:<request>, one or more
-- ARGV[1] request  id, runtimeUUID:number
--
-- Returns {request, 0}
local request = ARGV[1]
-- forget: delete the results of requests that have been answered and have no duplicates in flight. Their keys are KEYS[first] and all later KEYS.
-- A refusal is ignored: the script has done its work, and the results expire anyway.
local function forget(first)
  for i = first, #KEYS do redis.pcall('del', KEYS[i]) end
end

forget(1)
return {request, 0}

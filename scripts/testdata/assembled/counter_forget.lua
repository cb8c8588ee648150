-- counter_forget: delete results that nobody will ask for again. While requests follow each other they do that on their way; this
-- is for the last ones.
--
-- KEYS[n] answered string  holdfast_attempt:{name}:<request>, one or more
-- ARGV[1] request  id, runtimeUUID:number
--
-- Returns {request, 0}
local request = ARGV[1]
-- forget: delete the results, from KEYS[first] on, of requests that have been answered and of which no copy is on its way.
local function forget(first)
  for i = first, #KEYS do redis.call('del', KEYS[i]) end
end

forget(1)
return {request, 0}

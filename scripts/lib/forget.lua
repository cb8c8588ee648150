-- forget: delete the results, from KEYS[first] on, of requests that have been answered and have no duplicates in flight.
local function forget(first)
  for i = first, #KEYS do redis.call('del', KEYS[i]) end
end

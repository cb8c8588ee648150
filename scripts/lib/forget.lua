-- forget: delete the results of requests that have been answered and have no duplicates in flight. Their keys are KEYS[first] and all later KEYS.
local function forget(first)
  for i = first, #KEYS do redis.call('del', KEYS[i]) end
end

-- forget: delete the results of requests that have been answered and have no duplicates in flight. Their keys are KEYS[first] and all later KEYS.
-- A refusal is ignored: the script has done its work, and the results expire anyway.
local function forget(first)
  for i = first, #KEYS do redis.pcall('del', KEYS[i]) end
end

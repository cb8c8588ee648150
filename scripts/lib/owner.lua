-- owner: how Redisson and Holdfast name a holder or waiter: the UUID of its runtime, and a number.
local owner = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$'
local function is_owner(field) return string.find(field, owner) end
local function is_runtime(uuid) return string.find(uuid .. ':0', owner) end

-- owner: the pattern of an owner field. Redisson and Holdfast name a holder or waiter by the UUID of its runtime, a colon and a number.
local owner = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$'
local function is_owner(field) return string.find(field, owner) end
local function is_runtime(uuid) return string.find(uuid .. ':0', owner) end

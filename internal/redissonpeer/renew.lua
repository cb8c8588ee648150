-- Give many locks their full lease again, each if its owner still has it. Nothing is created.
--
-- KEYS[i] lock
-- ARGV[1] lease in ms
-- ARGV[i + 1] owner of lock i
--
-- Returns a list: 1 for each lock that was renewed, 0 for each that the owner has not.

local lease = ARGV[1]
local renewed = {}
for i, lock in ipairs(KEYS) do
    local owner = ARGV[i + 1]
    renewed[i] = redis.call('HEXISTS', lock, owner)
    if renewed[i] == 1 then
        redis.call('PEXPIRE', lock, lease)
    end
end
return renewed

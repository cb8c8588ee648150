-- Renew the leases of many locks, each only if its owner still holds it. No key is created.
--
-- KEYS[i] lock
-- ARGV[1] lease in ms
-- ARGV[i + 1] owner of lock i
--
-- Returns a list with a 1 for each lock that was renewed, and a 0 for each lock whose owner no longer holds it.

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

-- Renew the leases of one peer's readers, on many locks.
--
-- KEYS[2i-1] lock i
-- KEYS[2i]   prefix of the timeout keys of lock i
-- ARGV[1]    lease in ms
-- ARGV       then for each lock: the number of readers, and their fields
--
-- Returns a list with a 1 for each lock that at least one of the readers holds, and a 0 for each other lock.

local lease = ARGV[1]
local renewed, at = {}, 2
for i = 1, #KEYS, 2 do
    local lock, prefix, alive = KEYS[i], KEYS[i + 1], 0
    local last = at + tonumber(ARGV[at])
    for j = at + 1, last do
        local holds = redis.call('HGET', lock, ARGV[j])
        if holds then alive = 1 end
        for n = tonumber(holds or 0), 1, -1 do
            redis.call('PEXPIRE', prefix .. ':' .. ARGV[j] .. ':rwlock_timeout:' .. n, lease)
        end
    end
    if alive == 1 then redis.call('PEXPIRE', lock, lease) end -- as in Redisson, this may cut off a longer lease of another reader
    renewed[#renewed + 1] = alive
    at = last + 1
end
return renewed

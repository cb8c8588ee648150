-- Give the readers of one peer their full lease again, on many locks.
--
-- KEYS[2i-1] lock i
-- KEYS[2i]   where the timeout keys of lock i begin
-- ARGV[1]    lease in ms
-- ARGV       then for each lock: how many readers, and their fields
--
-- Returns a list: 1 for each lock that one of them holds, 0 for each other.

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
    if alive == 1 then redis.call('PEXPIRE', lock, lease) end -- it may shorten what another reader needs
    renewed[#renewed + 1] = alive
    at = last + 1
end
return renewed

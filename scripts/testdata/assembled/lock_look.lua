-- lock_look: check whether a grant holds a lock, of any kind that is stored as a hash.
--
-- KEYS[1] lock  hash {name}
-- ARGV[1] grant owner field
--
-- Returns 1 | 0
local lock = KEYS[1]
local grant = ARGV[1]

return redis.call('hexists', lock, grant)

-- check_keys: return the names of keys as the server received them. They differ from the names that were sent if a hook of the client
-- renames keys.
--
-- KEYS[n] tried names, one or more
--
-- Returns {name, ...}, as the server got them
local tried = KEYS
return tried

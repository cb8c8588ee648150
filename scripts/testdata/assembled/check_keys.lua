-- check_keys: return keys as the server received them: a hook of the client may rename them.
--
-- KEYS[n] tried names, one or more
--
-- Returns {name, ...}, as the server got them
local tried = KEYS
return tried

-- check_keys: what became of names on their way to the server: a hook of the client may rename them.
--
-- KEYS[n] tried names, one or more
--
-- Returns {name, ...}, as the server got them
local tried = KEYS
return tried

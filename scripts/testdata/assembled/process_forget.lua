-- process_forget: delete the announcement of a process.
--
-- KEYS[1] process string holdfast_process:{runtime}
--
-- Returns 1 | 0 (there was none)
local process = KEYS[1]

return redis.call('del', process)

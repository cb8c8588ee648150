-- process_forget: delete the announcement of a process.
--
-- KEYS[1] process   string  holdfast_process:{all}:runtime
-- KEYS[2] processes zset    holdfast_process:{all}, the runtimes that are announced
-- ARGV[1] runtime   UUID
--
-- Returns 1 | 0 (there was none)
local process, processes = KEYS[1], KEYS[2]
local runtime = ARGV[1]

redis.call('zrem', processes, runtime)
return redis.call('del', process)

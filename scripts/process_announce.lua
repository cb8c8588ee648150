-- process_announce: write who a process is, for people, or extend what was written before. A delayed duplicate is refused, because it
-- could come after process_forget.
--
-- KEYS[1] process   string   holdfast_process:{runtime}, "since version name"
-- ARGV[1] age       ms since the start of the runtime
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] keep      ms for which the announcement is kept
-- ARGV[4] who       version and name
--
-- Returns 1 | error LATE ms
local process = KEYS[1]
local age, not_after, keep, who = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
-- @include lib/in_time.lua

local late = in_time(not_after)
if late then return late end
local since = string.match(redis.call('get', process) or '', '^(%d+) ')
redis.call('set', process, (since or string.format('%.0f', server_time - age)) .. ' ' .. who, 'px', keep)
return 1

-- process_announce: announce a process, or renew its announcement. The announcement is a text that people read. A delayed duplicate is
-- refused, because it could arrive after process_forget.
--
-- KEYS[1] process   string  holdfast_process:{all}:runtime, "since version name"
-- KEYS[2] processes zset    holdfast_process:{all}, the runtimes that are announced, with the server times in ms at which their announcements expire
-- ARGV[1] age       ms since the start of the runtime
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] keep      ms for which the announcement is kept
-- ARGV[4] runtime   UUID
-- ARGV[5] who       version and name
--
-- Returns 1 | error LATE ms
local process, processes = KEYS[1], KEYS[2]
local age, not_after, keep, runtime, who = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
-- in_time returns nil until the server time has passed not_after (ms), and after that the error reply LATE with the server time in ms. A
-- delayed duplicate of an attempt must not run after its caller has given the attempt up.
local server_time
local function in_time(not_after)
  if not server_time then -- time stands still during a script, even one for many locks
    local t = redis.call('time')
    server_time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if server_time > tonumber(not_after) then
    return redis.error_reply('LATE ' .. string.format('%.0f', server_time))
  end
  return nil
end

local late = in_time(not_after)
if late then return late end
local since = string.match(redis.call('get', process) or '', '^(%d+) ')
redis.call('set', process, (since or string.format('%.0f', server_time - age)) .. ' ' .. who, 'px', keep)
redis.call('zremrangebyscore', processes, '-inf', string.format('%.0f', server_time))
redis.call('zadd', processes, string.format('%.0f', server_time + keep), runtime)
if redis.call('pttl', processes) < keep then
  redis.call('pexpire', processes, keep)
end
return 1

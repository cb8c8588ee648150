-- check_commands: try commands one after the other, and return the error of each. The caller chooses arguments with which the commands
-- change nothing permanently.
--
-- ARGV[n] tried for each command: the number of its words, then the words. There may be no commands
--
-- Returns {error or '', ...}, one for each command
local try, refused, at = redis.pcall, {}, 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local reply = try(unpack(ARGV, at + 1, at + words))
  refused[#refused + 1] = type(reply) == 'table' and reply.err or ''
  at = at + words + 1
end
return refused

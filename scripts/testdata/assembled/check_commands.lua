-- check_commands: try commands one after the other, and return the error of each. Their arguments make sure that the commands change
-- nothing permanently.
--
-- ARGV[n] tried the number of words of a command, then the words; the same for each further command; may be empty
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

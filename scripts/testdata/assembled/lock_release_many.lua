-- lock_release_many: the same as lock_release for many locks; the KEYS of all calls follow each other, and so do the ARGV.
--
-- Returns a list of their replies, in the same order; errors are {'error', text}.
-- for_each: run a script's body once for each lock and collect the replies. KEYS contains the keys of the first lock, then those of the second, and
-- so on; ARGV contains their arguments in the same order. The parameter `keys` is the number of keys of one lock. The body gets two offsets: the
-- number of KEYS and the number of ARGV that belong to earlier locks. If the body fails for a lock, for_each continues with the next lock. The reply
-- for the failed lock is {'error', text}, because not all clients can read an error inside a list. for_each replaces a reply of nil by false, because
-- Redis ends a list at the first nil.
local function for_each(keys, body)
  local n, args, replies = #KEYS / keys, #ARGV / #KEYS * keys, {}
  local function continue()
    for i = #replies, n - 1 do
      local reply = body(i * keys, i * args)
      if type(reply) == 'table' and reply.err then reply = {'error', reply.err} end
      replies[i + 1] = reply or false
    end
  end
  while #replies < n do -- one pcall serves all locks until one of them fails
    local done, failure = pcall(continue)
    if not done and type(failure) ~= 'table' then -- before Redis 7 an error is a text that begins with its position in the script
      failure = {err = string.gsub(failure, '^.-: ?%d+: %-?', '', 1)}
    end
    if not done then replies[#replies + 1] = {'error', failure.err} end
  end
  return replies
end

return for_each(2, function(KEYS_before, ARGV_before)
local lock, channel = KEYS[KEYS_before + 1], KEYS[KEYS_before + 2]
local grant, publish = ARGV[ARGV_before + 1], ARGV[ARGV_before + 2]

if redis.call('hdel', lock, grant) == 0 then return nil end
return redis.call(publish, channel, '0')
end)

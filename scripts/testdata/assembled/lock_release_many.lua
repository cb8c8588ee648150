-- lock_release_many: the same as lock_release for many locks; the KEYS of all calls follow each other, and so do the ARGV.
--
-- Returns a list of their replies, in the same order; errors are {'error', text}.
-- for_each: run a script's body once for each of n locks and collect the replies. The keys and the arguments of the locks follow
-- each other. If one lock fails, its reply is {'error', text} and the others continue; not all clients can read an error inside a
-- list. nil becomes false, because a Lua reply ends at the first nil.
local function for_each(n, body)
  local keys, args, replies = #KEYS / n, #ARGV / n, {}
  for i = 0, n - 1 do
    local its_keys, its_args = {}, {}
    for j = 1, keys do its_keys[j] = KEYS[i * keys + j] end
    for j = 1, args do its_args[j] = ARGV[i * args + j] end
    local done, reply = pcall(body, its_keys, its_args)
    if not done and type(reply) ~= 'table' then -- before Redis 7 it is a text that begins with the position
      reply = {err = string.gsub(reply, '^.-: ?%d+: %-?', '', 1)}
    end
    if type(reply) == 'table' and reply.err then reply = {'error', reply.err} end
    replies[i + 1] = reply or false
  end
  return replies
end

return for_each(#KEYS / 2, function(KEYS, ARGV)
-- lock_release: free the lock if this grant holds it, and wake the waiters. A retry changes nothing. HDEL instead of HINCRBY: it
-- needs no memory, so unlocking works at maxmemory. Redis deletes a hash with its last field.
--
-- KEYS[1] lock    hash     {name}
-- KEYS[2] channel channel  redisson_lock__channel:{name}
-- ARGV[1] grant   owner field, runtimeUUID:number
-- ARGV[2] publish PUBLISH or SPUBLISH
--
-- Returns the number of subscribers that were notified | nil (this grant does not hold the lock)
local lock, channel = KEYS[1], KEYS[2]
local grant, publish = ARGV[1], ARGV[2]

if redis.call('hdel', lock, grant) == 0 then return nil end
return redis.call(publish, channel, '0')
end)

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

-- semaphore_acquire: take permits for several waiters of one process, as many of them as there are permits for, in their order.
-- A repeat takes nothing more and returns what was taken.
--
-- Who waits for several permits would never get them while others keep taking single ones. So it may reserve the semaphore for its
-- runtime: nobody else (of those who know of want) takes any then, until it is served or its time is over, and as long again after
-- that nobody may reserve.
--
-- KEYS[1] semaphore string   {name}
-- KEYS[2] channel   channel  redisson_sc:{name}
-- KEYS[3] attempt   string   holdfast_attempt:{name}:<request>
-- KEYS[4] want      string   holdfast_want:{name}: the runtime that has reserved, or "rest runtime" for a while after that
-- KEYS[n] answered  string   holdfast_attempt:{name}:<request>, none or more: results that nobody will ask for again
-- ARGV[1] request   id, runtimeUUID:number
-- ARGV[2] not_after ms of server time; later, the attempt is refused
-- ARGV[3] keep      ms that the result is kept for repeats
-- ARGV[4] publish   PUBLISH or SPUBLISH
-- ARGV[5] runtime   UUID
-- ARGV[6] reserve   ms to reserve for, if the first waiter cannot be served; 0: leave it as it is; -1: end our reservation
-- ARGV[7] rest      ms without a reservation after ours has ended; 0: none, not even what is left of an earlier one
-- ARGV[n] wanted    permits that each waiter wants, oldest first; negative: does not wait, so nobody waits behind it
--
-- Returns {request, served, left, reserved} | error LATE ms | error FOREIGN text. served has a 1 or 0 for each waiter, left is how many
-- permits there are now, '' if there is no semaphore, reserved is 1 if we have reserved.
local semaphore, channel, attempt, want = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local request, not_after, keep, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local runtime, reserve, rest = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local first = 8
-- @include lib/in_time.lua
-- @include lib/count_of.lua
-- @include lib/forget.lua
-- @include lib/owner.lua
-- @include lib/reserver.lua

local late = in_time(not_after)
if late then return late end
local before = redis.call('get', attempt)
local count, foreign = count_of(semaphore)
local left = count or 0
if before then
  forget(5)
  return {request, string.match(before, '^%S*'), left, 0}
end
if foreign then return foreign end
local reserver, foreign = reserver_of(want)
if foreign then return foreign end
local ours, resting = reserver == runtime, reserver == 'rest ' .. runtime
local blocked = reserver and not ours and string.sub(reserver, 1, 5) ~= 'rest '
local served, taken = {}, 0
for i = first, #ARGV do
  local wanted = tonumber(ARGV[i])
  local fits = not blocked and taken + math.abs(wanted) <= left
  served[#served + 1] = fits and '1' or '0'
  if fits then
    taken = taken + math.abs(wanted)
  elseif wanted > 0 then
    blocked = true
  end
end
served = table.concat(served)
left = left - taken

if taken > 0 then
  redis.call('decrby', semaphore, string.format('%.0f', taken))
  redis.call('set', attempt, served .. ' ' .. string.format('%.0f', taken), 'px', keep)
end
local reserved = 0
if ours and (taken > 0 or reserve < 0) or resting and reserve < 0 and rest == 0 then
  if rest > 0 then
    redis.call('set', want, 'rest ' .. runtime, 'px', rest)
  else
    redis.call('del', want)
  end
  if left > 0 then redis.call(publish, channel, string.format('%.0f', left)) end -- for those who were kept out
elseif taken == 0 and reserve > 0 and (ours or not reserver) then
  redis.call('set', want, runtime, 'px', reserve)
  reserved = 1
end
forget(5)
return {request, served, count and left or '', reserved}

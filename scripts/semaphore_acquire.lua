-- semaphore_acquire: take permits for as many waiters of one process as possible, in order. A retry takes nothing, and returns the first result.
--
-- A waiter for several permits would starve if others kept taking single permits. So its runtime may reserve the semaphore. Meanwhile other runtimes
-- take no permits. (Runtimes that do not support reservations still do.) A reservation ends when it expires, when its runtime ends it, or when a
-- waiter of its runtime is served. In the last two cases, a rest follows: for `rest` ms no runtime may reserve the semaphore.
--
-- KEYS[1] semaphore string   {name}
-- KEYS[2] channel   channel  redisson_sc:{name}
-- KEYS[3] attempt   string   holdfast_attempt:{name}:<request>
-- KEYS[4] want      string   holdfast_want:{name}: "runtime" during its reservation, "rest runtime" for a while after its end
-- KEYS[n] answered  string   holdfast_attempt:{name}:<request>, none or more: results that are no longer needed
-- ARGV[1] request   id, runtimeUUID:number
-- ARGV[2] not_after server time in ms, after which the attempt is refused
-- ARGV[3] keep      ms for which the result is kept for retries
-- ARGV[4] publish   PUBLISH or SPUBLISH
-- ARGV[5] runtime   UUID
-- ARGV[6] reserve   ms: if no waiter can be served, reserve the semaphore for that time; 0: do not reserve; -1: end this runtime's reservation
-- ARGV[7] rest      ms of rest after this runtime's reservation; if `reserve` is -1 and `rest` 0, the call also ends the runtime's earlier rest
-- ARGV[n] wanted    permits for each waiter, oldest first; a negative number is a try, which does not block the waiters behind it
--
-- Returns {request, served, left, reserved} | error LATE ms | error FOREIGN text
--   served    text with one digit for each waiter, in order: 1 if the waiter was served, else 0
--   left      the number of available permits, or '' if there is no semaphore
--   reserved  1 if this call has made or prolonged a reservation, else 0
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
local reserved = 0
if ours and (taken > 0 or reserve < 0) or resting and reserve < 0 and rest == 0 then
  if rest > 0 then
    redis.call('set', want, 'rest ' .. runtime, 'px', rest)
  else
    redis.call('del', want)
  end
  if left > 0 then redis.pcall(publish, channel, string.format('%.0f', left)) end -- wakes the waiters that the reservation kept out
elseif taken == 0 and reserve > 0 and (ours or not reserver) then
  redis.call('set', want, runtime, 'px', reserve)
  reserved = 1
end
if taken > 0 then -- last, and after its result is kept: a user who lacks a right takes no permits, because Redis does not roll back
  redis.call('set', attempt, served .. ' ' .. string.format('%.0f', taken), 'px', keep)
  local reply = redis.pcall('decrby', semaphore, string.format('%.0f', taken))
  if type(reply) == 'table' then redis.call('del', attempt); return reply end
end
forget(5)
return {request, served, count and left or '', reserved}

-- Rewrite. KEYS: the log, the register of logs. ARGV: the name of the log, then for
-- each entry its revision and one byte that says whether it stays, and its data.
-- Returns 0, or the number of the first entry that is not there.
local places, last = {}, -2
for i = 2, #ARGV, 2 do
  local revision = sub(ARGV[i], 1, 8)
  local at, found = last + 1, false
  if last >= 0 then found = call('LINDEX', KEYS[1], at) end -- entries often come in a row
  if not found or sub(found, 1, 8) ~= revision then at, found = find(KEYS[1], revision) end
  if not found or sub(found, 1, 8) ~= revision then return i / 2 end
  places[i], last = at, at
end
call('ZCARD', KEYS[2])

local gone = 0
for i = 2, #ARGV, 2 do
  if sub(ARGV[i], 9, 9) == 'd' then
    call('LSET', KEYS[1], places[i], sub(ARGV[i], 1, 8) .. ARGV[i + 1])
  else
    call('LSET', KEYS[1], places[i], 'x') -- no entry is that short
    gone = gone + 1
  end
end
if gone > 0 then
  call('LREM', KEYS[1], 0, 'x')
  if call('LLEN', KEYS[1]) == 0 then call('ZREM', KEYS[2], ARGV[1]) end
end
return 0

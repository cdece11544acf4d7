-- Rewrite. KEYS: the hash of the log, the register of logs. ARGV: the name of the log,
-- then for each entry its revision and one byte that says whether it stays, what it was,
-- and its data. Returns 0, or 1 if one of the entries is not there or not what it was.
local hash, name = KEYS[1], ARGV[1]
local tail = call('HGET', hash, 'l' .. name)
prove(KEYS[2])
if not tail then return 1 end
local list = parts(hash, name, tail)
if not list then return damaged() end

local after = {} -- fields of the log: what is to be there, or false
local listed, copied = {}, 1 -- the new list of parts, and how far it was copied
local grown = '' -- the part that the end of the log became
local i, n = 2, #ARGV
while i <= n do
  local at = find(list, sub(ARGV[i], 1, 8))
  local closed = at <= #list
  local field = closed and 'c' .. sub(list, at, at + 7) .. name
  local records = closed and call('HGET', hash, field) or not closed and sub(tail, 2)
  if not records then return damaged() end
  local new, last, pos = {}, nil, 1
  while pos <= #records do
    local next = pos + 12 + unpack('>I4', records, pos)
    local revision = sub(records, next - 8, next - 1)
    if i <= n and sub(ARGV[i], 1, 8) == revision then
      if sub(records, pos + 4, next - 9) ~= ARGV[i + 1] then return 1 end
      if sub(ARGV[i], 9) == 'd' then
        new[#new + 1] = pack('>I4', #ARGV[i + 2]) .. ARGV[i + 2] .. revision
        last = revision
      end
      i = i + 3
    elseif i <= n and less(ARGV[i], revision) then
      return 1
    else
      new[#new + 1] = sub(records, pos, next - 1)
      last = revision
    end
    pos = next
  end
  if closed then
    listed[#listed + 1] = sub(list, copied, at - 1)
    copied = at + 12
    after[field] = false
    if last then
      after['c' .. last .. name] = table.concat(new)
      listed[#listed + 1] = last .. pack('>I4', #new)
    end
  else
    if i <= n then return 1 end
    tail = sub(tail, 1, 1) .. table.concat(new)
    if #tail > long then -- too long for the end of a log now
      after['c' .. last .. name] = sub(tail, 2)
      grown = last .. pack('>I4', #new)
      tail = 'd'
    end
  end
end
listed[#listed + 1] = sub(list, copied)
listed = table.concat(listed) .. grown
if listed ~= list then after['d' .. name] = listed ~= '' and listed end
if #tail == 1 and listed == '' then
  after['l' .. name] = false
  put(drops, KEYS[2], name)
else
  after['l' .. name] = (listed ~= '' and 'd' or 's') .. sub(tail, 2)
end
for field, records in pairs(after) do
  if records then put(sets, hash, field, records) else put(dels, hash, field) end
end
write()
return 0

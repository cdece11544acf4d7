-- Scan. KEYS: hashes of logs. ARGV: the first revision wanted of the first log, how many
-- entries at most, after how many bytes to end early, a byte for each log that says
-- which key it is in, and the names of logs in the order in which they are wanted.
-- Returns the logs in pieces, an empty string after the last piece of each log, and
-- 'more' at the end if there are others. The last piece may hold more than is wanted.
local first, left, bytes, places = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local out = {}

-- take adds the records of a piece from a place on, unless enough is there.
local function take(records, at, from)
  while from and at <= #records do
    local next = at + 12 + unpack('>I4', records, at)
    if not less(sub(records, next - 8, next - 1), from) then break end
    at = next
  end
  if at > #records then return true end
  if left <= 0 or bytes <= 0 then return false end
  left, bytes = left - count(records, at), bytes - #records
  out[#out + 1] = sub(records, at)
  return true
end

for i = 5, #ARGV do
  local hash, name = KEYS[byte(places, i - 4)], ARGV[i]
  local from = i == 5 and first
  local tail = call('HGET', hash, 'l' .. name)
  if tail then -- else it was emptied meanwhile
    local list = parts(hash, name, tail)
    if not list then return damaged() end
    for at = from and find(list, from) or 1, #list, 12 do
      local part = call('HGET', hash, 'c' .. sub(list, at, at + 7) .. name)
      if not part then return damaged() end
      if not take(part, 1, from) then
        out[#out + 1] = 'more'
        return out
      end
    end
    if not take(tail, 2, from) then
      out[#out + 1] = 'more'
      return out
    end
  end
  out[#out + 1] = ''
end
return out

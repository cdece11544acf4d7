-- Restore. KEYS: the keys that the operations name by number. ARGV: the operations,
-- the names of fields, and for each object the terms that the caller knows of and,
-- if it is not removed, how it is to be kept.
-- Returns 0, or 1 if an object carries other terms than the caller knew of.
local ops = ARGV[1]
local count, pos = unpack('>I4', ops)
local value, key, n
value, key, n, pos = fields(ops, pos)
pos = members(ops, pos, false)
pos = members(ops, pos, true)
n = n + 2
local f, stays
for _ = 1, count do
  f, stays, pos = unpack('>I4B', ops, pos)
  local old, terms = value[f], ''
  if old then
    local first, last = carried(old)
    terms = sub(old, first, last - 1)
  end
  if terms ~= ARGV[n] then return 1 end
  n = n + 1
  if stays == 1 then
    put(sets, key[f], ARGV[f + 1], ARGV[n])
    n = n + 1
  elseif old then
    put(dels, key[f], ARGV[f + 1])
  end
end
write()
return 0

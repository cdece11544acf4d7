-- History. KEYS: the hash of the log. ARGV: its name, the first revision wanted, how
-- many. Returns pieces of the log, with earlier records before and later ones behind.
local hash, name, wanted = KEYS[1], ARGV[1], tonumber(ARGV[3])
local tail = call('HGET', hash, 'l' .. name)
if not tail then return {} end
local list = parts(hash, name, tail)
if not list then return damaged() end
local out, begun = {}, false
for at = find(list, ARGV[2]), #list, 12 do
  if wanted <= 0 then return out end
  local part = call('HGET', hash, 'c' .. sub(list, at, at + 7) .. name)
  if not part then return damaged() end
  out[#out + 1] = part
  -- How much of the first piece is wanted is not known here.
  if begun then wanted = wanted - unpack('>I4', list, at + 8) end
  begun = true
end
if wanted > 0 then out[#out + 1] = sub(tail, 2) end
return out

-- Apply. KEYS: the register of logs, and the keys that the operations name by number.
-- ARGV: the operations, the names of fields, and contents in the order of the puts.
-- Returns 0, or the number of the first check or put that is stale, or -1 if an object
-- that is to carry nothing more carries a term that the caller did not know of.
local ops = ARGV[1]
local absent = '\0\0\0\0\0\0\0\0'
local checks, puts, pos = unpack('>I4I4', ops)
local value, key, read
value, key, read, pos = fields(ops, pos)
local f, revision
for i = 1, checks do
  f, revision, pos = unpack('>I4c8', ops, pos)
  local at = value[f]
  if (at and sub(at, 1, 8) or absent) ~= revision then return i end
end
pos = members(ops, pos, true)

-- retermed is the terms of an object after an edit, and what it carries no more is
-- noted as such. It is nil if a term stays that may not.
local function retermed(terms, name, chunk, pos, edits, clear)
  local where, sorts = {}, {}
  local k, s, t
  for _ = 1, edits do
    k, s, t, pos = unpack('>I4BI4c0', ops, pos)
    where[t] = KEYS[k]
    if s == 1 then sorts[t], pos = unpack('c8', ops, pos) end
  end
  local kept, n, last, before = {}, 0, nil, nil
  local at = 1
  while at <= #terms do
    local b = byte(terms, at)
    local same = b % 2
    local size = (b - same) / 2
    at = at + 1
    if size == 127 then size, at = unpack('>I4', terms, at) end
    t = sub(terms, at, at + size - 1)
    at = at + size
    if same == 0 then
      last = sub(terms, at, at + 7)
      at = at + 8
    end
    local to = where[t]
    if not to then
      if clear == 1 then return nil, pos end
      same = last == before and 1 or 0
      kept[n + 1] = size < 127 and char(2 * size + same) or char(254 + same) .. pack('>I4', size)
      kept[n + 2] = t
      kept[n + 3] = same == 0 and last or ''
      n, before = n + 3, last
    elseif sorts[t] ~= last then
      prove(to)
      put(drops, to, last .. name)
    end
  end
  kept[n + 1] = chunk
  return table.concat(kept), pos
end

local n = read + 2 -- the next content
for i = 1, puts do
  local from, to, data, clear, log, edits
  f, from, to, data, clear, log, edits, pos = unpack('>I4c8c8BBI4I4', ops, pos)
  local old, hash, field = value[f], key[f], ARGV[f + 1]
  if (old and sub(old, 1, 8) or absent) ~= from then return checks + i end
  if not old then
    put(sets, hash, field, ARGV[n]) -- as it is kept
    n = n + 1
  else
    local first, last = carried(old)
    local terms = sub(old, first, last - 1)
    if edits > 0 then
      local chunk
      chunk, pos = unpack('>I4c0', ops, pos)
      terms, pos = retermed(terms, field, chunk, pos, edits, clear)
      if not terms then return -1 end
    elseif clear == 1 and terms ~= '' then
      return -1
    end
    local size = 2 * #terms + data
    local object = to .. (size < 255 and char(size) or '\255' .. pack('>I4', size)) .. terms
    if data == 1 then
      object = object .. ARGV[n]
      n = n + 1
    end
    put(sets, hash, field, object)
  end
  if log > 0 then
    local known = append(key[log], field, value[log], to, ARGV[n])
    if known == nil then return damaged() end
    if not known then return checks + i end
    n = n + 1
    if not value[log] then
      prove(KEYS[1])
      put(adds, KEYS[1], '0', field)
    end
  end
end

write()
return 0

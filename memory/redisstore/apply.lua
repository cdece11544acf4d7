-- Apply. KEYS: the count of objects, the register of logs, and the keys that the
-- operations name by number. ARGV: the operations, how many bytes of a key come
-- before an object's own name, and contents in the order of the puts.
-- Returns 0, or the number of the first check or put that is stale.
local ops, skip = ARGV[1], tonumber(ARGV[2]) + 1
local absent = string.rep('\0', 8)
local checks, puts, pos = unpack('>I4I4', ops)
local k, revision
for i = 1, checks do
  k, revision, pos = unpack('>I4c8', ops, pos)
  local at = call('GETRANGE', KEYS[k], 0, 7)
  if at == '' then at = absent end
  if at ~= revision then return i end
end

local proven = {} -- keys of terms that are sorted sets, or absent
local function carriers(t)
  if not proven[t] then
    call('ZCARD', KEYS[t])
    proven[t] = true
  end
end

local objects, heads, datas = {}, {}, {}
local logs, entries, revisions, first, before = {}, {}, {}, {}, {}
local dropped, carried, new, begun = {}, {}, 0, false
local n = 3 -- the next content
for i = 1, puts do
  local from, to, data, entry, log, removes, adds
  k, from, to, data, entry, log, removes, adds, pos = unpack('>I4c8c8BBI4I4I4', ops, pos)
  local terms = ''
  local head = call('GETRANGE', KEYS[k], 0, 255)
  if head == '' then
    if from ~= absent then return checks + i end
    new = new + 1
  else
    if sub(head, 1, 8) ~= from then return checks + i end
    local size = unpack('>I4', head, 10)
    if 13 + size > #head then head = call('GETRANGE', KEYS[k], 0, 12 + size) end
    terms = sub(head, 14, 13 + size)
  end

  if removes + adds > 0 then
    local name = sub(KEYS[k], skip)
    local key, sort, added, t, s, chunk = {}, {}, {}, nil, nil, nil
    for _ = 1, removes do
      t, s, pos = unpack('>I4I4c0', ops, pos)
      key[s] = t
    end
    for j = 1, adds do
      added[j], pos = unpack('>I4', ops, pos)
    end
    chunk, pos = unpack('>I4c0', ops, pos) -- the added terms as an object keeps them
    local at = 1
    for j = 1, adds do
      t, s, at = unpack('>I4c0c8', chunk, at)
      key[t], sort[t] = added[j], s
    end
    local kept, same = {}, {}
    at = 1
    while at <= #terms do
      local next
      t, s, next = unpack('>I4c0c8', terms, at)
      if not key[t] then
        kept[#kept + 1] = sub(terms, at, next - 1)
      elseif sort[t] == s then
        same[t] = true
      else
        carriers(key[t])
        dropped[#dropped + 1] = key[t]
        dropped[#dropped + 1] = s .. name
      end
      at = next
    end
    at = 1
    for j = 1, adds do
      t, s, at = unpack('>I4c0c8', chunk, at)
      if not same[t] then
        carriers(added[j])
        carried[#carried + 1] = added[j]
        carried[#carried + 1] = s .. name
      end
    end
    kept[#kept + 1] = chunk
    terms = table.concat(kept)
  end
  objects[i], heads[i] = KEYS[k], to .. (data == 1 and 'd' or 't') .. pack('>I4', #terms) .. terms
  if data == 1 then
    datas[i], n = n, n + 1
  end

  if entry == 1 then
    logs[i], entries[i], revisions[i], n = KEYS[log], n, to, n + 1
    local last = call('LINDEX', KEYS[log], -1)
    if not last then
      first[i], begun = true, true
    elseif not less(last, to) then -- the object was put back to before the end of its log
      local _, found = find(KEYS[log], to)
      if sub(found, 1, 8) == to then return checks + i end
      before[i] = found
    end
  end
end
if new > 0 then
  local count = call('GET', KEYS[1])
  if count and (not string.find(count, '^%d+$') or #count > 15) then
    return redis.error_reply('WRONGTYPE the count of objects is no number')
  end
end
if begun then call('ZCARD', KEYS[2]) end

-- From here on there are only writes, and none of them can fail.
for i = 1, puts do
  local head = heads[i]
  if datas[i] then head = head .. ARGV[datas[i]] end
  call('SET', objects[i], head)
  if logs[i] then
    local entry = revisions[i] .. ARGV[entries[i]]
    if before[i] then
      call('LINSERT', logs[i], 'BEFORE', before[i], entry)
    else
      call('RPUSH', logs[i], entry)
    end
    if first[i] then call('ZADD', KEYS[2], 0, sub(logs[i], skip)) end
  end
end
for i = 1, #dropped, 2 do call('ZREM', KEYS[dropped[i]], dropped[i + 1]) end
for i = 1, #carried, 2 do call('ZADD', KEYS[carried[i]], 0, carried[i + 1]) end
if new > 0 then call('INCRBY', KEYS[1], new) end
return 0

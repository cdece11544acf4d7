-- Restore. KEYS: the count of objects, and the keys that the operations name by
-- number. ARGV: the operations, how many bytes of a key come before an object's own
-- name, and for each object that is not removed its value.
-- Returns 0, or 1 if an object carries other terms than the caller knew of.
local ops, skip = ARGV[1], tonumber(ARGV[2]) + 1
local count, pos = unpack('>I4', ops)
local n, grown = 3, 0
local sets, values, dropped, carried = {}, {}, {}, {}
local proven = {}
for i = 1, count do
  local k, stays, known, drops, carries
  k, stays, known, drops, carries, pos = unpack('>I4BI4c0I4I4', ops, pos)
  local head = call('GETRANGE', KEYS[k], 0, 255)
  local terms = ''
  if head ~= '' then
    local size = unpack('>I4', head, 10)
    if 13 + size > #head then head = call('GETRANGE', KEYS[k], 0, 12 + size) end
    terms = sub(head, 14, 13 + size)
  end
  if terms ~= known then return 1 end
  sets[i] = KEYS[k]
  if stays == 1 then
    values[i], n = n, n + 1
    if head == '' then grown = grown + 1 end
  elseif head ~= '' then
    grown = grown - 1
  end
  local name = sub(KEYS[k], skip)
  for j = 1, drops + carries do
    local t, s
    t, s, pos = unpack('>I4c8', ops, pos)
    if not proven[t] then
      call('ZCARD', KEYS[t])
      proven[t] = true
    end
    local list = j <= drops and dropped or carried
    list[#list + 1] = t
    list[#list + 1] = s .. name
  end
end
local objects = call('GET', KEYS[1])
if objects and (not string.find(objects, '^%d+$') or #objects > 15) then
  return redis.error_reply('WRONGTYPE the count of objects is no number')
end

for i = 1, count do
  if values[i] then
    call('SET', sets[i], ARGV[values[i]])
  else
    call('DEL', sets[i])
  end
end
for i = 1, #dropped, 2 do call('ZREM', KEYS[dropped[i]], dropped[i + 1]) end
for i = 1, #carried, 2 do call('ZADD', KEYS[carried[i]], 0, carried[i + 1]) end
grown = grown + tonumber(objects or '0')
if grown > 0 then
  call('SET', KEYS[1], string.format('%.0f', grown))
else
  call('DEL', KEYS[1])
end
return 0

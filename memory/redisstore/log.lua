-- A log is records in ascending order: four bytes of how long the data is, the data,
-- eight bytes of revision. The last ones are in the field l<name> of its hash, after
-- a letter: s, these are all; d, there are earlier ones, in parts, and perhaps none
-- here. A part is in the field c<revision><name> of its last record, and the field
-- d<name> lists the parts in order: the revision, and four bytes of how many records
-- it has. Each new record has the end of the log written anew, so that is short, and
-- a record that is longer is a part of its own.
local short, long = 2048, 4096 -- how many bytes are at the end of a log, at most
local parted = byte('d')

-- find is the place in a list of parts of the first that ends at a revision or after
-- it; after the end, if it is the end of the log that does.
local function find(parts, revision)
  local low, high = 0, #parts / 12
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(sub(parts, 12 * middle + 1, 12 * middle + 8), revision) then low = middle + 1 else high = middle end
  end
  return 12 * low + 1
end

local function parts(hash, name, tail)
  if byte(tail) ~= parted then return '' end
  return call('HGET', hash, 'd' .. name)
end

local function count(records, at)
  local n = 0
  while at <= #records do
    at, n = at + 12 + unpack('>I4', records, at), n + 1
  end
  return n
end

-- inserted is records with one more among them, or false if its revision is there.
local function inserted(records, revision, record)
  local at = 1
  while at <= #records do
    local next = at + 12 + unpack('>I4', records, at)
    local found = sub(records, next - 8, next - 1)
    if found == revision then return false end
    if less(revision, found) then break end
    at = next
  end
  return sub(records, 1, at - 1) .. record .. sub(records, at)
end

-- append puts a record into a log; tail is the end of it, or false. It gives false
-- if the revision is there, and nil if the log is damaged.
local function append(hash, name, tail, revision, record)
  local list
  local last = tail and sub(tail, -8)
  if tail and #tail == 1 then
    list = parts(hash, name, tail)
    if not list then return nil end
    last = sub(list, -12, -5)
  end
  if not last or less(last, revision) then
    tail = tail or 's'
    if #tail + #record <= (byte(tail) == parted and long or short) then
      put(sets, hash, 'l' .. name, tail .. record)
      return true
    end
    list = list or parts(hash, name, tail)
    if not list then return nil end
    if #tail > 1 then
      put(sets, hash, 'c' .. last .. name, sub(tail, 2))
      list = list .. last .. pack('>I4', count(tail, 2))
    end
    if #record > short then
      put(sets, hash, 'c' .. revision .. name, record)
      list = list .. revision .. pack('>I4', 1)
      record = ''
    end
    put(sets, hash, 'd' .. name, list)
    put(sets, hash, 'l' .. name, 'd' .. record)
    return true
  end
  -- The object was put back to before the end of its log.
  list = list or parts(hash, name, tail)
  if not list then return nil end
  local at = find(list, revision)
  if at > #list then
    local records = inserted(sub(tail, 2), revision, record)
    if not records then return false end
    put(sets, hash, 'l' .. name, sub(tail, 1, 1) .. records)
    return true
  end
  local field = 'c' .. sub(list, at, at + 7) .. name
  local part = call('HGET', hash, field)
  if not part then return nil end
  local records = inserted(part, revision, record)
  if not records then return false end
  put(sets, hash, field, records)
  put(sets, hash, 'd' .. name, sub(list, 1, at + 7) .. pack('>I4', unpack('>I4', list, at + 8) + 1) .. sub(list, at + 12))
  return true
end

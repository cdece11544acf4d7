-- What every script begins with.
--
-- Redis does not undo what a script wrote before it failed, so everything that can
-- fail comes before the first write. Numbers of 64 bits are strings of eight bytes,
-- most significant first: a Lua number holds 53 bits. Two of them are the same if
-- the strings are; which is less is not for Lua's "<" on strings to say, which goes
-- by the locale of the server.
local call, pack, unpack, sub = redis.call, struct.pack, struct.unpack, string.sub

local function less(a, b)
  local a1, a2 = unpack('>I4I4', a)
  local b1, b2 = unpack('>I4I4', b)
  return a1 < b1 or a1 == b1 and a2 < b2
end

-- A log is a list of entries in ascending order: the revision, then the data.
-- find is the place of the first entry at a revision or after it, and that entry.
local function find(log, revision)
  local low, high, found = 0, call('LLEN', log), false
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = call('LINDEX', log, middle)
    if less(entry, revision) then
      low = middle + 1
    else
      high, found = middle, entry
    end
  end
  return low, found
end

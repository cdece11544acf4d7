-- What every script begins with.
--
-- Redis does not undo what a script wrote before it failed, so everything that can
-- fail comes before the first write: each key that is written was read before, and
-- so is of its type and on this server. Numbers of 64 bits are strings of eight
-- bytes, most significant first: a Lua number holds 53 bits. Two of them are the
-- same if the strings are; which is less is not for Lua's "<" on strings to say,
-- which goes by the locale of the server.
local call, several = redis.call, unpack
local pack, unpack, sub, byte, char = struct.pack, struct.unpack, string.sub, string.byte, string.char

-- How many arguments a call gets at most: the stack of Lua is not deep.
local most = 2000

local function less(a, b)
  local a1, a2 = unpack('>I4I4', a)
  local b1, b2 = unpack('>I4I4', b)
  return a1 < b1 or a1 == b1 and a2 < b2
end

local function damaged() return redis.error_reply('WRONGTYPE a part of a log is not there') end

-- What is to be written, by key: fields and values, fields to go, members to add,
-- members to go.
local sets, dels, adds, drops = {}, {}, {}, {}

-- put adds to what is to be written to a key.
local function put(to, key, a, b)
  local list = to[key]
  if not list then
    list = {}
    to[key] = list
  end
  local n = #list
  list[n + 1], list[n + 2] = a, b
end

local function each(command, lists)
  for key, list in pairs(lists) do
    local n = #list
    if n <= most then
      call(command, key, several(list))
    else
      for from = 1, n, most do
        call(command, key, several(list, from, from + most - 1 < n and from + most - 1 or n))
      end
    end
  end
end

-- write writes all that was put. None of it can fail. What is new comes first: a key
-- that ends and begins again would be sought elsewhere while its slot is moving.
local function write()
  each('HSET', sets)
  each('HDEL', dels)
  each('ZADD', adds)
  each('ZREM', drops)
end

local proven = {} -- keys that are sorted sets, or absent
local function prove(key)
  if not proven[key] then
    call('ZCARD', key)
    proven[key] = true
  end
end

-- members reads lists of members of sorted sets, each of one key.
local function members(ops, pos, add)
  local lists, k, count, m
  lists, pos = unpack('>I4', ops, pos)
  for _ = 1, lists do
    k, count, pos = unpack('>I4I4', ops, pos)
    local key = KEYS[k]
    prove(key)
    local to = add and adds or drops
    local list = to[key]
    if not list then
      list = {}
      to[key] = list
    end
    local n = #list
    for _ = 1, count do
      m, pos = unpack('>I4c0', ops, pos)
      if add then
        n = n + 1
        list[n] = '0'
      end
      n = n + 1
      list[n] = m
    end
  end
  return pos
end

-- carried is where the terms of an object begin and where its data does, and
-- whether it has data.
local function carried(object)
  local n, from = byte(object, 9), 10
  if n == 255 then n, from = unpack('>I4', object, 10) end
  local data = n % 2
  return from, from + (n - data) / 2, data
end

-- fields reads fields of hashes, each so many of one key. The names are the arguments
-- from the second one on. It gives their values, false where there is none, and
-- the key that each is in. Of a large object it keeps what comes before the data, and
-- it reads few at a time, so that a batch of many does not fill the memory.
local function fields(ops, pos)
  local value, key, n = {}, {}, 0
  local lists, k, count, objects
  lists, pos = unpack('>I4', ops, pos)
  for _ = 1, lists do
    k, count, objects, pos = unpack('>I4I4B', ops, pos)
    k = KEYS[k]
    while count > 0 do
      local step = count < 64 and count or 64
      local got = call('HMGET', k, several(ARGV, n + 2, n + 1 + step))
      for i = 1, step do
        local v = got[i]
        if objects == 1 and v and #v > 8192 then
          local _, data = carried(v)
          v = sub(v, 1, data - 1)
        end
        value[n + i], key[n + i] = v, k
      end
      n, count = n + step, count - step
    end
  end
  return value, key, n, pos
end

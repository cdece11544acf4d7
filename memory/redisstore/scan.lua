-- Scan. KEYS: logs, in the order in which they are wanted. ARGV: the first revision
-- wanted of the first of them, how many entries at most, after how many bytes to end
-- early.
-- Returns the entries, an empty string after the last one of each log, and 'more' at
-- the end if there are others.
local left, bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
local out, n = {}, 0
for i = 1, #KEYS do
  local at, step = 0, 16
  if i == 1 then at = find(KEYS[1], ARGV[1]) end
  while true do
    -- One more than is left shows whether there is more. Few at first: they may be large.
    local want = math.min(step, left + 1)
    local got = call('LRANGE', KEYS[i], at, at + want - 1)
    for j = 1, #got do
      if left == 0 or bytes <= 0 then
        out[n + 1] = 'more'
        return out
      end
      n, left, bytes = n + 1, left - 1, bytes - #got[j]
      out[n] = got[j]
    end
    if #got < want then break end
    at, step = at + want, math.min(2 * step, 512)
  end
  n = n + 1
  out[n] = ''
end
return out

-- History. KEYS: the log. ARGV: the first revision wanted, how many.
local first = find(KEYS[1], ARGV[1])
return call('LRANGE', KEYS[1], first, first + ARGV[2] - 1)

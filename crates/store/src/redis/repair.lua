-- Takes away what cannot be ours: a value without a version, a key of another type. KEYS: the value, then hashes.
-- ARGV: request id. Answers {id, how many keys it took away}.
local taken = 0
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' then
  local version = redis.call('GETRANGE', KEYS[1], 8, 15)
  if redis.call('STRLEN', KEYS[1]) < 32 or version == '\0\0\0\0\0\0\0\0' then
    taken = redis.call('DEL', KEYS[1])
  end
elseif kind ~= 'none' then
  taken = redis.call('DEL', KEYS[1])
end
for key = 2, #KEYS do
  local found = redis.call('TYPE', KEYS[key]).ok
  if found ~= 'hash' and found ~= 'none' then
    taken = taken + redis.call('DEL', KEYS[key])
  end
end
return {ARGV[1], taken}

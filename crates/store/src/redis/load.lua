-- Reads a value. KEYS: the value. ARGV: request id. Answers {id, value?}.
local value = redis.call('GET', KEYS[1])
if value then return {ARGV[1], value} end
return {ARGV[1]}

-- Reads a value. KEYS: the value; then the hashes in which records may lie. ARGV: request id.
-- Answers {id, how many of those hashes there are, value?}.
local hashes = redis.call('EXISTS', unpack(KEYS, 2))
local value = redis.call('GET', KEYS[1])
if value then return {ARGV[1], hashes, value} end
return {ARGV[1], hashes}

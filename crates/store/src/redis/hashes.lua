-- Reads whole hashes. KEYS: the hashes. ARGV: request id.
-- Answers {id, {field, value, ...}, ...}, one for each key.
local out = {ARGV[1]}
for index = 1, #KEYS do out[#out + 1] = redis.call('HGETALL', KEYS[index]) end
return out

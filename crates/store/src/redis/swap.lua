-- Sets one field of a hash when it still holds what was read. KEYS: the hash.
-- ARGV: request id; the field; what was read, '' for nothing; what to write; the life of the hash in ms.
-- Answers: the id alone: done. {id, held}: it holds something else.
local held = redis.call('HGET', KEYS[1], ARGV[2]) or ''
if held ~= ARGV[3] then return {ARGV[1], held} end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return ARGV[1]

-- What is common to all replicas, and the time. KEYS: the hash.
-- ARGV: request id; the life of the hash in ms; a field to set and its value, '' for none; fields to take away.
-- Answers {id, seconds, microseconds, field, value, ...}.
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], ARGV[3], ARGV[4]) end
if #ARGV > 4 then redis.call('HDEL', KEYS[1], unpack(ARGV, 5)) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local time, out = redis.call('TIME'), redis.call('HGETALL', KEYS[1])
return {ARGV[1], time[1], time[2], unpack(out)}

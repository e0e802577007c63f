-- Writes what a commit writes, under keys that nobody reads: is it taken? KEYS: a string; a hash. ARGV: request id; a life in ms.
-- Answers the id.
redis.call('HSET', KEYS[2], 'trial', '')
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('SET', KEYS[1], '', 'PX', ARGV[2])
return ARGV[1]

-- Names scopes. KEYS: the hash of a day. ARGV: request id; the life of the hash in ms; then fields and names.
-- Answers the id.
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return ARGV[1]

-- Adds to numbers, once. KEYS: the hash of an hour. ARGV: request id; the life of the hash in ms; the writer's field; the number of
-- this addition; the largest sum; then names and what to add to each.
-- Answers the id, whether it is added now or was before.
local done = tonumber(redis.call('HGET', KEYS[1], ARGV[3]) or '0') or 0
if done >= tonumber(ARGV[4]) then return ARGV[1] end
local names, sums = {}, {ARGV[3], ARGV[4]}
for index = 6, #ARGV, 2 do names[#names + 1] = ARGV[index] end
local held = #names > 0 and redis.call('HMGET', KEYS[1], unpack(names)) or {}
for index, name in ipairs(names) do
  local sum = (tonumber(held[index] or '0') or 0) + tonumber(ARGV[5 + 2 * index])
  sums[#sums + 1] = name
  sums[#sums + 1] = string.format('%.0f', math.min(sum, tonumber(ARGV[5])))
end
redis.call('HSET', KEYS[1], unpack(sums))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return ARGV[1]

-- Looks records up. KEYS: the hashes in which they may lie. ARGV: request id; fields.
-- Answers {id, number, cell, ...}, with numbers from one.
local out = {ARGV[1]}
if redis.call('EXISTS', unpack(KEYS)) == 0 then return out end
for key = 1, #KEYS do
  if redis.call('EXISTS', KEYS[key]) == 1 then
    for from = 2, #ARGV, 2000 do
      local cells = redis.call('HMGET', KEYS[key], unpack(ARGV, from, math.min(from + 1999, #ARGV)))
      for index, cell in ipairs(cells) do
        if cell then
          out[#out + 1] = from + index - 2
          out[#out + 1] = cell
        end
      end
    end
  end
end
return out

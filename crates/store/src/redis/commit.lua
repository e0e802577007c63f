-- One atomic step: checks the version, then the records, and then writes all or nothing.
-- KEYS: the value; then, when records must be absent, the hashes in which they may lie; else those that are written.
-- ARGV: request id; expected version as 8 bytes, '' for none; the value; its life in ms; fleet time in us;
--       how many records must be absent, and their fields; then for each hash that is written:
--       its number in KEYS, its life in ms, how many arguments follow, fields and cells.
-- Answers: the id alone: done. {id, 0, value?}: another version is there. {id, 1, number, cell, ...}: records are there.
local id = ARGV[1]
if redis.call('GETRANGE', KEYS[1], 8, 15) ~= ARGV[2] then
  local value = redis.call('GET', KEYS[1])
  if value then return {id, 0, value} end
  return {id, 0}
end
local absent = tonumber(ARGV[6])
if absent > 0 and redis.call('EXISTS', unpack(KEYS, 2)) > 0 then
  local out, newest, counts, now = {id, 1}, {}, {}, tonumber(ARGV[5])
  for key = 2, #KEYS do
    if redis.call('EXISTS', KEYS[key]) == 1 then
      for from = 1, absent, 2000 do
        local cells = redis.call('HMGET', KEYS[key], unpack(ARGV, 6 + from, 6 + math.min(from + 1999, absent)))
        for index, cell in ipairs(cells) do
          if cell and #cell >= 16 then
            -- Seldom: somebody was faster. A renewed record may lie in two hashes, the later one counts.
            local written, ends = struct.unpack('>I8I8', cell)
            local at = from + index - 1
            if not newest[at] or written > newest[at] then
              newest[at], counts[at] = written, ends > now and cell
            end
          end
        end
      end
    end
  end
  for at = 1, absent do
    if counts[at] then
      out[#out + 1], out[#out + 2] = at, counts[at]
    end
  end
  if #out > 2 then return out end
end
local at = 7 + absent
-- A hash of another type must fail before anything is written, not between two writes. The first one does so by itself.
local other = at < #ARGV and at + 3 + tonumber(ARGV[at + 2]) or at
while other <= #ARGV do
  redis.call('HLEN', KEYS[tonumber(ARGV[other])])
  other = other + 3 + tonumber(ARGV[other + 2])
end
while at <= #ARGV do
  local key, count = KEYS[tonumber(ARGV[at])], tonumber(ARGV[at + 2])
  redis.call('HSET', key, unpack(ARGV, at + 3, at + 2 + count))
  redis.call('PEXPIRE', key, ARGV[at + 1])
  at = at + 3 + count
end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
return id

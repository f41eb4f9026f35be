-- The driver: one request as one atomic step.
--
-- KEYS: one per matched node, then the lists of logs. ARGV[1], packed
-- little-endian: now, how many keys are nodes, then for each op the index of its key, algorithm, kind, role, descriptor, record id, cost
-- and the five parameters of its limit. Reply, packed: for each op its status
-- (0 denied, 1 allowed, 2 foreign value), remaining, retry after, reset after,
-- delay.
--
-- A key holds the byte 1 and then records of 40 bytes: id, the time at which
-- the bucket will be as if untouched, and the three words of its state. A record
-- whose time has passed (by MAX_SKEW, for a clock a little behind) is dropped at
-- the next write, whoever wrote it.
local TAKE, PEEK, GIVE, CHARGE = 1, 2, 3, 4
local MUST, QUOTA = 1, 2
local MAX_CHARGE = 1000000000
local MAX_ATTEMPTS = 8
local FOREIGN = 2
local OP, RECORD, OUTCOME = '<HBBBHc8i8i8i8i8i8i8', '<c8i8i8i8i8', '<i8i8i8i8i8'
local FIXED, LOG = 1, 2
local ONE_OP = 73 -- bytes of ARGV[1] with one op
local spread = unpack
local unpack, pack, ceil = struct.unpack, struct.pack, math.ceil

local input = ARGV[1]
local now, nodes_n, pos = unpack('<i8H', input)

-- usual decides the usual request and returns its reply: takes that all fit,
-- from keys that hold just their buckets, in order, or nothing; or one such take
-- that is denied. Of any other it leaves everything as it was, for the long way
-- of longway.lua, which would decide this one the same at three times the price.
local function usual()
  local reply, bodies, lasts = '', {}, {}
  local node, v, at, body, last, p = 0, false, 0, nil, 0, pos
  repeat
    local key, algorithm, kind, _, _, id, cost, p1, p2, p3, p4, p5, after = unpack(OP, input, p)
    if kind ~= TAKE or algorithm == LOG then return nil end
    if key ~= node then
      if key ~= node + 1 or v and at <= #v then return nil end
      node, at, body, last = key, 2, '\1', 0
      v = redis.pcall('GET', KEYS[key])
      if v and (type(v) ~= 'string' or #v % 40 ~= 1 or string.byte(v) ~= 1) then return nil end
    end
    local a, b, c = 0, 0, 0
    if v then
      if at > #v then return nil end
      local stored
      stored, _, a, b, c = unpack(RECORD, v, at)
      if stored ~= id then return nil end
      at = at + 40
    elseif string.find(body, id, 1, true) then
      return nil
    end
    local ok, left, retry, reset, x, y, z, delay = twins[algorithm](a, b, c, now, cost, 0, p1, p2, p3, p4, p5)
    reply = reply .. pack(OUTCOME, ok, left, retry, reset, delay)
    if ok == 0 then
      return #input == ONE_OP and x == a and y == b and z == c and reply or nil
    end
    body = body .. pack(RECORD, id, now + reset, x, y, z)
    if reset > last then last = reset end
    bodies[key], lasts[key] = body, last
    p = after
  until p > #input
  if v and at <= #v then return nil end
  for i = 1, node do
    redis.call('SET', KEYS[i], bodies[i], 'PX', ceil((lasts[i] + MAX_SKEW) / 1000))
  end
  return reply
end
local reply = usual()
if reply then return reply end


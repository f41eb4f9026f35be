-- The long way: any request, decided as driver.lua says, by all of the twins.

-- load returns the records of a key, or false if it holds something else.
local function load(key)
  local v = redis.pcall('GET', key)
  if not v then return {} end
  if type(v) ~= 'string' or #v % 40 ~= 1 or string.byte(v) ~= 1 then return false end
  local records = {}
  for at = 2, #v, 40 do
    local id, till, a, b, c = unpack(RECORD, v, at)
    records[#records + 1] = { id = id, till = till, a = a, b = b, c = c, a0 = a, b0 = b, c0 = c }
  end
  return records
end

local function find(records, id)
  for i = 1, #records do
    if records[i].id == id then return records[i] end
  end
  local r = { id = id, till = 0, a = 0, b = 0, c = 0, a0 = 0, b0 = 0, c0 = 0 }
  records[#records + 1] = r
  return r
end

-- log_twin steps a log. One that turns out to hold something else in its midst
-- it leaves as it is.
local function log_twin(view, a, _, _, ...)
  if not view.foreign then
    local out = { pcall(log_step, view, a, ...) }
    if out[1] then return spread(out, 2) end
    if not view.foreign then error(out[2]) end
  end
  return 0, 0, 0, 0, a, 0, 0, 0
end

-- perform steps the op's record as the kind wants it. Only of an op that is
-- itself a peek is nothing kept: a peek on behalf of another may re-date the
-- state.
local function perform(op, kind)
  local r, twin, cost = op.record, op.twin, op.cost
  if kind == PEEK then cost = 0 elseif kind == GIVE then cost = -cost end
  local p1, p2, p3, p4, p5 = op.p1, op.p2, op.p3, op.p4, op.p5
  if kind == CHARGE then p5 = 0 end -- nobody waits for what has happened
  local ok, left, retry, reset, a, b, c, delay = twin(r.a, r.b, r.c, now, cost, 0, p1, p2, p3, p4, p5)
  if kind == CHARGE and ok == 0 then
    local _, room = twin(a, b, c, now, 0, p4, p1, p2, p3, p4, p5)
    local most = left > MAX_CHARGE and left or MAX_CHARGE
    if cost > most then cost = most end
    if cost > room then cost = room end
    _, _, _, _, a, b, c = twin(a, b, c, now, cost, p4, p1, p2, p3, p4, p5)
    _, left, retry, reset, a, b, c = twin(a, b, c, now, 0, 0, p1, p2, p3, p4, p5)
  end
  if op.kind ~= PEEK and (a ~= r.a or b ~= r.b or c ~= r.c or op.view and (ok == 1 or kind == CHARGE)) then
    r.a, r.b, r.c, r.till, r.touched = a, b, c, now + reset, true
  end
  return ok, left, retry, reset, delay
end

local nodes = {}
for i = 1, nodes_n do nodes[i] = load(KEYS[i]) end
local views = {}
local ops, n, quotas = {}, 0, false
while pos <= #input do
  local key, algorithm, kind, role, descriptor, id, cost, p1, p2, p3, p4, p5, after = unpack(OP, input, pos)
  local records = nodes[key]
  local op = {
    twin = twins[algorithm], algorithm = algorithm, kind = kind, role = role, descriptor = descriptor, cost = cost,
    p1 = p1, p2 = p2, p3 = p3, p4 = p4, p5 = p5, record = records and find(records, id),
    ok = FOREIGN, left = 0, retry = 0, reset = 0, delay = 0,
  }
  if records and algorithm == LOG then
    if views[p3] == nil then views[p3] = log_view(KEYS[p3]) or false end
    records, op.view = views[p3], views[p3]
    op.twin = function(...) return log_twin(op.view, ...) end
    if not records then op.record = false end
  end
  if records then
    op.ok, op.left, op.retry, op.reset, op.delay = perform(op, kind)
    op.record.parts = op.record.parts or {}
    table.insert(op.record.parts, op)
  end
  if role == QUOTA then quotas = true end
  pos, n = after, n + 1
  ops[n] = op
end

-- spoil gives up the ops on logs that turned out to be none.
local function spoil()
  for i = 1, n do
    local op = ops[i]
    if op.view and op.view.foreign then op.ok, op.left, op.retry, op.reset = FOREIGN, 0, 0, 0 end
  end
end
spoil()

local function over(op) return op.ok == 0 and op.kind ~= GIVE end

-- fits tells whether no quota op of the descriptor is over.
local function fits(descriptor)
  for i = 1, n do
    local op = ops[i]
    if op.descriptor == descriptor and op.role == QUOTA and over(op) then return false end
  end
  return true
end

local denied, left = false, false
for i = 1, n do
  local op = ops[i]
  if op.role == MUST and over(op) then denied = true end
  if op.role == QUOTA and not left then left = fits(op.descriptor) end
end
if quotas and not left then denied = true end

local function written(op)
  if op.ok == FOREIGN or op.kind == PEEK then return false end
  if op.kind ~= TAKE then return true end
  return op.ok == 1 and not denied and (op.role ~= QUOTA or fits(op.descriptor))
end

-- If a take that fitted is not to be written after all, begin anew with what
-- is, and answer what remains for the rest.
local anew = false
for i = 1, n do
  local op = ops[i]
  if op.kind == TAKE and op.ok == 1 and not written(op) then anew = true end
end
if anew then
  for i = 1, n do
    local r = ops[i].record
    if r then r.a, r.b, r.c, r.touched = r.a0, r.b0, r.c0, false end
    if ops[i].view then log_reset(ops[i].view) end
  end
  for i = 1, n do
    if written(ops[i]) then perform(ops[i], ops[i].kind) end
  end
  for i = 1, n do
    local op = ops[i]
    if op.record and not written(op) then
      local _
      _, op.left, _, op.reset = perform(op, PEEK)
    end
  end
  spoil()
end

-- attempt returns for how long the first of the parts that is denied would have
-- to wait, if they came at a time and found a state, and 0 if none is.
local function attempt(parts, at, a, b, c, view)
  for i = 1, #parts do
    local op = parts[i]
    local cost = op.cost
    if op.kind == PEEK then cost = 0 elseif op.kind == GIVE then cost = -cost end
    local step = op.view and function(...) return log_twin(view, ...) end or twins[op.algorithm]
    local ok, _, retry, _, x, y, z = step(a, b, c, at, cost, 0, op.p1, op.p2, op.p3, op.p4, op.p5)
    if ok == 0 and op.role == MUST and op.kind ~= GIVE then return retry end
    if ok == 1 and op.kind ~= PEEK then a, b, c = x, y, z end
  end
  return 0
end

-- together returns the longest that one of the parts was told to wait; 0 if
-- nothing is to be settled.
local function together(parts)
  local wait = 0
  for i = 1, #parts do
    local op = parts[i]
    if op.ok == FOREIGN or op.kind == CHARGE or op.retry < 0 then return 0 end
    if op.role == MUST and op.kind ~= GIVE and op.retry > wait then wait = op.retry end
  end
  return #parts > 1 and wait or 0
end

-- settle sets right for how long the parts of a denied request have to wait that
-- ask one bucket together: if the request comes again, so do all of them. Of a
-- fixed window they wait for its end anyway.
local function settle(r)
  local parts = r.parts
  local wait = together(parts)
  if wait == 0 then return end
  local view = parts[1].view
  if attempt(parts, now, 0, 0, 0, view and log_empty(view)) ~= 0 then
    wait = -1
  elseif parts[1].algorithm ~= FIXED then
    local more
    for _ = 1, MAX_ATTEMPTS do
      more = attempt(parts, now + wait, r.a, r.b, r.c, view and log_copy(view))
      if more == 0 then break end
      wait = wait + more
    end
    if more ~= 0 then wait = parts[1].reset end
  end
  for i = 1, #parts do
    if parts[i].role == MUST and parts[i].ok == 0 then parts[i].retry = wait end
  end
end
if denied then
  for i = 1, n do
    local r = ops[i].record
    if r and r.parts[1] == ops[i] then settle(r) end
  end
end

-- save writes the records of a key back if one of them changed.
local function save(key, records)
  local changed, last, kept = false, 0, { '\1' }
  for i = 1, #records do
    local r = records[i]
    if r.touched then changed = true end
    if r.till + MAX_SKEW > now then
      kept[#kept + 1] = pack(RECORD, r.id, r.till, r.a, r.b, r.c)
      if r.till > last then last = r.till end
    end
  end
  if not changed then return end
  if #kept == 1 then
    redis.call('DEL', key)
  else
    redis.call('SET', key, table.concat(kept), 'PX', ceil((last + MAX_SKEW - now) / 1000))
  end
end
for i = 1, nodes_n do
  if nodes[i] then save(KEYS[i], nodes[i]) end
end
for _, v in pairs(views) do
  if v and not v.foreign then log_save(v) end
end

local out = {}
for i = 1, n do
  local op = ops[i]
  out[i] = pack(OUTCOME, op.ok, op.left, op.retry, op.reset, op.delay)
end
return table.concat(out)

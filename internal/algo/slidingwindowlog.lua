-- sliding_window_log: the Lua twin of slidingwindowlog.go, on a view of a list.
--
-- The list holds packed (time, sum); its first element is no request, its sum is
-- that before all others. A view shows it with changes that are not written
-- yet: n elements, of which over holds those from low on.
local MAX_LOG = 100000
local MODULUS = 9007199254740992
local ENTRY = '<i8i8'

-- log_view returns nil if the key holds something else.
local function log_view(key)
  local n = redis.pcall('LLEN', key)
  if type(n) ~= 'number' then return nil end
  if n > 0 and #redis.call('LINDEX', key, -1) ~= 16 then return nil end
  return { key = key, n = n, n0 = n, low = n + 1, over = {}, read = {}, first = 2, reset = 0 }
end

-- log_empty returns a view of an empty log, log_copy one that can be changed
-- without changing v. Neither is to be saved.
local function log_empty(v)
  return { key = v.key, n = 0, n0 = 0, low = 1, over = {}, read = {}, first = 2, reset = 0 }
end

local function log_copy(v)
  local over = {}
  for i = v.low, v.n do over[i] = v.over[i] end
  return { key = v.key, n = v.n, n0 = v.n0, low = v.low, over = over, read = v.read, first = v.first, reset = v.reset }
end

local function log_reset(v)
  v.n, v.low, v.over = v.n0, v.n0 + 1, {}
end

local function log_entry(v, i)
  local e = i >= v.low and v.over[i] or v.read[i]
  if not e then
    local raw = redis.call('LINDEX', v.key, i - 1)
    if #raw ~= 16 then
      v.foreign = true
      error('not an entry')
    end
    e = { struct.unpack(ENTRY, raw) }
    v.read[i] = e
  end
  return e[1], e[2]
end

-- log_put makes element i the last one.
local function log_put(v, i, at, sum)
  v.over[i], v.n = { at, sum }, i
  if i < v.low then v.low = i end
end

-- Sums are kept modulo 2^53, so that they never end.
local function log_sum(a, b)
  if a >= MODULUS - b then return a - (MODULUS - b) end
  return a + b
end

local function log_difference(a, b)
  if a < b then return a - b + MODULUS end
  return a - b
end

-- log_search returns the least i in low..high-1 for which it is true, or high.
local function log_search(low, high, is)
  while low < high do
    local middle = floor((low + high) / 2)
    if is(middle) then high = middle else low = middle + 1 end
  end
  return low
end

-- log_step returns what a twin does, with the shift for a state.
local function log_step(v, shift, now, cost, slack, quota, window)
  local kept = shift
  local n = v.n
  local last_at, last_sum, base, live = 0, 0, 0, 0
  if n > 1 then
    last_at, last_sum = log_entry(v, n)
    if last_at + shift - now > MAX_SKEW then
      shift = now - last_at
      kept = shift
    end
  else
    shift = 0
  end
  local later = n > 1 and last_at + shift > now and last_at + shift or now
  local first = 2
  if n > 1 then
    first = log_search(2, n + 1, function(i) return log_entry(v, i) + shift > later - window end)
    live = n + 1 - first
    local _
    _, base = log_entry(v, first - 1)
  end
  v.first = first
  local used = live > 0 and log_difference(last_sum, base) or 0

  local capacity = quota + slack
  local function remaining()
    if live >= MAX_LOG or capacity <= used then return 0 end
    return capacity - used
  end
  local function reset()
    v.reset = live > 0 and last_at + shift + window - now or 0
    return v.reset
  end
  if cost < 0 then
    if used > 0 then
      used = used + cost > 0 and used + cost or 0
      if used == 0 then
        v.n, v.low, live, kept = 0, 1, 0, 0
      else
        local i = log_search(first, n, function(i)
          local _, sum = log_entry(v, i)
          return log_difference(sum, base) >= used
        end)
        last_at = log_entry(v, i)
        log_put(v, i, last_at, log_sum(base, used))
        live = i + 1 - first
      end
    end
    return 1, remaining(), 0, reset(), kept, 0, 0, 0
  end

  local ask = cost > 0 and cost or 1
  if ask > capacity then return 0, remaining(), -1, reset(), kept, 0, 0, 0 end
  if used + ask > capacity or live >= MAX_LOG then
    local i = log_search(first, n, function(i)
      local _, sum = log_entry(v, i)
      return log_difference(last_sum, sum) <= capacity - ask
    end)
    local at = log_entry(v, i)
    return 0, remaining(), at + shift + window - now, reset(), kept, 0, 0, 0
  end
  if cost > 0 then
    if live == 0 then
      kept, shift = 0, 0
      v.over, v.low, v.n, v.first = { { 0, 0 }, { later, cost } }, 1, 2, 2
    elseif last_at + shift == later then
      log_put(v, n, last_at, log_sum(last_sum, cost))
    else
      log_put(v, n + 1, later - shift, log_sum(last_sum, cost))
    end
    live = live + ((live == 0 or last_at + shift ~= later) and 1 or 0)
    last_at, used = later - shift, used + cost
  end
  return 1, remaining(), 0, reset(), kept, 0, 0, 0
end

-- log_save writes a view back.
local function log_save(v)
  if v.n == v.n0 and v.low > v.n0 then return end
  local keep = v.low - 1 < v.n and v.low - 1 or v.n
  if keep == 0 then
    redis.call('DEL', v.key)
  elseif keep < v.n0 then
    redis.call('LTRIM', v.key, 0, keep - 1)
  end
  for i = keep + 1, v.n do
    redis.call('RPUSH', v.key, struct.pack(ENTRY, v.over[i][1], v.over[i][2]))
  end
  if v.first > 2 then redis.call('LTRIM', v.key, v.first - 2, -1) end
  redis.call('PEXPIRE', v.key, math.ceil((v.reset + MAX_SKEW) / 1000))
end

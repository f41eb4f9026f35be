-- bucket: the Lua twin of bucket.go, for token_bucket and leaky_bucket.
-- State: whole units owed, fraction owed, time. Parameters: quota, window,
-- burst, overdraft, most delay (0: any; nil: no queue).
local function bucket(whole, fraction, at, now, cost, slack, quota, window, burst, overdraft, max_delay)
  if quota == 0 then
    if cost < 0 then return 1, 0, 0, 0, whole, fraction, at, 0 end
    return 0, 0, -1, 0, whole, fraction, at, 0
  end
  if at - now > MAX_SKEW then at = now end
  local a, b, c = whole, fraction, at
  local ahead = at > now and at - now or 0
  local elapsed = now + ahead - at
  at = now + ahead

  if whole >= burst + overdraft then whole, fraction = burst + overdraft, 0 end
  if floor(elapsed / window) > floor(whole / quota) then
    whole, fraction = 0, 0
  else
    local units, part = muldiv(elapsed, quota, window)
    whole, fraction = whole - units, fraction - part
    if fraction < 0 then whole, fraction = whole - 1, fraction + window end
    if whole < 0 then whole, fraction = 0, 0 end
  end
  local owed = fraction > 0 and whole + 1 or whole

  local function till(most)
    if owed <= most then return 0 end
    local wait, rest = muldiv(whole - most, window, quota)
    return ahead + wait + floor((rest + fraction + quota - 1) / quota)
  end

  local capacity = burst + slack
  if cost < 0 then
    if owed > 0 then
      whole = whole + cost
      if whole < 0 then whole, fraction = 0, 0 end
      owed = fraction > 0 and whole + 1 or whole
      a, b, c = whole, fraction, at
      if owed == 0 then a, b, c = 0, 0, 0 end
    end
    return 1, capacity > owed and capacity - owed or 0, 0, till(0), a, b, c, 0
  end
  local fit, left = fits(owed, capacity, cost)
  local delay, late = 0, 0
  if max_delay then
    delay = till(0)
    if max_delay > 0 and delay > max_delay then left, late = 0, delay - max_delay end
  end
  if fit < 0 then return 0, left, -1, till(0), a, b, c, 0 end
  if fit == 0 or late > 0 then
    local retry = till(capacity - (cost > 0 and cost or 1))
    return 0, left, retry > late and retry or late, till(0), a, b, c, 0
  end
  if cost > 0 then
    whole, owed = whole + cost, owed + cost
    a, b, c = whole, fraction, at
  end
  local reset = till(0)
  if max_delay and max_delay > 0 and reset > max_delay then left = 0 end
  return 1, left, 0, reset, a, b, c, delay
end

-- token_bucket: the Lua twin of tokenbucket.go.
-- State: whole tokens owed, fraction owed, time. Parameters: quota, window,
-- burst, overdraft.
twins[4] = function(whole, fraction, at, now, cost, slack, quota, window, burst, overdraft)
  if quota == 0 then
    if cost < 0 then return 1, 0, 0, 0, whole, fraction, at end
    return 0, 0, -1, 0, whole, fraction, at
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
    end
    return 1, capacity > owed and capacity - owed or 0, 0, till(0), a, b, c
  end
  local fit, left = fits(owed, capacity, cost)
  if fit < 0 then return 0, left, -1, till(0), a, b, c end
  if fit == 0 then return 0, left, till(capacity - (cost > 0 and cost or 1)), till(0), a, b, c end
  if cost > 0 then
    whole, owed = whole + cost, owed + cost
    a, b, c = whole, fraction, at
  end
  return 1, left, 0, till(0), a, b, c
end

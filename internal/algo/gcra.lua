-- gcra: the Lua twin of gcra.go. Spacings are pairs: whole microseconds and a
-- rest in units of 1/quota.
-- State: theoretical arrival time, its rest, time. Parameters: quota, window,
-- burst, overdraft.
twins[6] = function(arrival, rest, at, now, cost, slack, quota, window, burst, overdraft)
  if quota == 0 then
    if cost < 0 then return 1, 0, 0, 0, arrival, rest, at, 0 end
    return 0, 0, -1, 0, arrival, rest, at, 0
  end
  if at - now > MAX_SKEW then arrival, at = arrival - (at - now), now end
  local a, b, c = arrival, rest, at
  local ahead = at > now and at - now or 0
  local later = now + ahead

  local function minus(x, xr, y, yr)
    x, xr = x - y, xr - yr
    if xr < 0 then x, xr = x - 1, xr + quota end
    if x < 0 then return 0, 0 end
    return x, xr
  end
  local function wait(x, xr)
    if x == 0 and xr == 0 then return 0 end
    return ahead + x + (xr > 0 and 1 or 0)
  end

  local debt, part = arrival - at, rest
  if part >= quota then debt, part = debt + 1, 0 end
  local most, mostr = muldiv(burst + overdraft, window, quota)
  if most < debt or most == debt and mostr < part then debt, part = most, mostr end
  debt = debt - (later - at)
  if debt < 0 then debt, part = 0, 0 end

  local capacity = burst + slack
  local function remaining()
    if capacity <= 0 then return 0 end
    local x, xr = muldiv(capacity, window, quota)
    x, xr = minus(x, xr, debt, part)
    local units, over = muldiv(x, quota, window)
    return units + floor((over + xr) / window)
  end
  if cost < 0 then
    if debt > 0 or part > 0 then
      local units = -cost
      if units > burst + overdraft then units = burst + overdraft end
      debt, part = minus(debt, part, muldiv(units, window, quota))
      a, b, c = later + debt, part, later
      if debt == 0 and part == 0 then a, b, c = 0, 0, 0 end
    end
    return 1, remaining(), 0, wait(debt, part), a, b, c, 0
  end

  local ask = cost > 0 and cost or 1
  if ask > capacity then return 0, remaining(), -1, wait(debt, part), a, b, c, 0 end
  local tolerance, tolr = muldiv(capacity - ask, window, quota)
  if tolerance < debt or tolerance == debt and tolr < part then
    return 0, remaining(), wait(minus(debt, part, tolerance, tolr)), wait(debt, part), a, b, c, 0
  end
  if cost > 0 then
    local x, xr = muldiv(cost, window, quota)
    debt, part = debt + x, part + xr
    if part >= quota then debt, part = debt + 1, part - quota end
    a, b, c = later + debt, part, later
  end
  return 1, remaining(), 0, wait(debt, part), a, b, c, 0
end

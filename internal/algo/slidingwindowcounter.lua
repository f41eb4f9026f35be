-- sliding_window_counter: the Lua twin of slidingwindowcounter.go.
-- State: used, before, start. Parameters: quota, window, none, overdraft.
twins[3] = function(used, before, start, now, cost, slack, quota, window)
  if start - now > MAX_SKEW then start = now - now % window end
  local a, b, c = used, before, start
  local ahead = start > now and start - now or 0
  local begin = now + ahead - (now + ahead) % window
  if begin == start + window then
    used, before, start = 0, used, begin
  elseif begin ~= start then
    used, before, start = 0, 0, begin
  end
  local elapsed = now + ahead - start

  local function slides_to(count, room)
    if count <= room then return 0 end
    local k, r = muldiv(room + 1, window, count)
    if r > 0 then k = k + 1 end
    return window - k + 1
  end
  local function till(capacity, ask)
    local room, wait = capacity - ask - used, 0
    if room >= 0 then
      wait = slides_to(before, room) - elapsed
    else
      wait = window - elapsed + slides_to(used, capacity - ask)
    end
    return wait > 0 and ahead + wait or 0
  end

  local capacity = quota + slack
  if cost < 0 then
    if used > 0 or before > 0 then
      local rest = -cost > used and -cost - used or 0
      used = used + cost > 0 and used + cost or 0
      before = before > rest and before - rest or 0
      a, b, c = used, before, start
      if used == 0 and before == 0 then a, b, c = 0, 0, 0 end
    end
    local estimate = muldiv(before, window - elapsed, window) + used
    return 1, capacity > estimate and capacity - estimate or 0, 0, till(0, 0), a, b, c, 0
  end
  local fit, left = fits(muldiv(before, window - elapsed, window) + used, capacity, cost)
  if fit < 0 then return 0, left, -1, till(0, 0), a, b, c, 0 end
  if fit == 0 then return 0, left, till(capacity, cost > 0 and cost or 1), till(0, 0), a, b, c, 0 end
  if cost > 0 then
    used = used + cost
    a, b, c = used, before, start
  end
  return 1, left, 0, till(0, 0), a, b, c, 0
end

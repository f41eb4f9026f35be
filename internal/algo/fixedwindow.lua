-- fixed_window: the Lua twin of fixedwindow.go.
-- State: used, finish, start. Parameters: quota, and the window that holds now.
twins[1] = function(used, finish, start, now, cost, slack, quota, begin, close)
  local a, b, c = used, finish, start
  if now < start or now >= finish then
    if start <= begin then
      used, finish, start = 0, close, begin
    elseif start - now > MAX_SKEW then
      finish, start = close, begin
      a, b, c = used, finish, start
    end
  end

  local reset = finish - now
  if cost < 0 then
    if used > 0 then
      used = used + cost > 0 and used + cost or 0
      a, b, c = used, finish, start
      if used == 0 then a, b, c = 0, 0, 0 end
    end
    local left = quota + slack - used
    return 1, left > 0 and left or 0, 0, reset, a, b, c, 0
  end
  local fit, left = fits(used, quota + slack, cost)
  if fit < 0 then return 0, left, -1, reset, a, b, c, 0 end
  if fit == 0 then return 0, left, reset, reset, a, b, c, 0 end
  if cost > 0 then a, b, c = used + cost, finish, start end
  return 1, left, 0, reset, a, b, c, 0
end

local floor = math.floor
local MAX_SKEW = 1000000
local twins = {}

-- a*b/d: quotient and remainder, exact for a, b < 2^53, d < 2^45 and a quotient
-- below 2^53. Horner over the 7-bit digits of the smaller factor keeps every
-- intermediate below 2^53.
local function muldiv(a, b, d)
  local p = a * b
  if p < 9007199254740992 then
    local q = floor(p / d)
    return q, p - q * d
  end
  if a > b then a, b = b, a end
  local whole = floor(b / d)
  local x, q, r = b - whole * d, 0, 0
  local scale = 1
  while scale * 128 <= a do scale = scale * 128 end
  while scale >= 1 do
    local t = r * 128 + x * (floor(a / scale) % 128)
    local k = floor(t / d)
    q, r = q * 128 + k, t - k * d
    scale = scale / 128
  end
  return whole * a + q, r
end

-- The twin of decide in algo.go, without the wait: whether a cost fits
-- (1, 0, or -1 for never) and the units that remain if it is taken.
local function fits(used, capacity, cost)
  local ask = cost > 0 and cost or 1
  local left = capacity > used and capacity - used or 0
  if ask > capacity then return -1, left end
  if used + ask > capacity then return 0, left end
  return 1, left - cost
end

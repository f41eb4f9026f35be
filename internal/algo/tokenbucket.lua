-- token_bucket: the Lua twin of tokenbucket.go.
twins[4] = function(a, b, c, now, cost, slack, quota, window, burst, overdraft)
  return bucket(a, b, c, now, cost, slack, quota, window, burst, overdraft)
end

-- leaky_bucket: the Lua twin of leakybucket.go.
twins[5] = bucket

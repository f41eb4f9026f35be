package redis

// Script is what Redis runs.
func Script() string { return source }

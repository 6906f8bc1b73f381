package rans

// Wire constants (FORMAT.md section 11).
const (
	L           = 1 << 15 // smallest state between symbols
	MaxLanes    = 64
	MinTableLog = 8
	MaxTableLog = 12
	MaxClusters = 64
	MaxTokens   = 256
)

// stateLimit is one above the largest state.
const stateLimit = 1 << 31

// maxCall bounds the symbols of one call of a kernel, which the Go scheduler cannot interrupt.
const maxCall = 1 << 15

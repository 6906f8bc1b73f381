// Package transform turns lane values into contexts, tokens and raw bits, and back (FORMAT.md sections 7, 8, 9 and 11).
//
// A target value and its reference become one number z (the key difference, zigzagged; or the value itself, magnitude first). Its low
// K bits go to the raw plane; what is above becomes a token, which is entropy coded in the context of the reference, and a tail of raw
// bits. Split does this in one pass, Clusters and Join are the way back. The generic loops here run on every processor and are what
// the assembly of this package is tested against.
package transform

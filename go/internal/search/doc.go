// Package search finds what the canonical encoder may code a tensor with besides its own reference (FORMAT.md part II,
// sections 30 to 37): which tensors of a file belong together, the constants of an optimizer's step that turns one into the
// other, rows that an optimizer only decayed, and classes of rows.
//
// Everything it decides follows from the tensors' bits and names by integers, or by single float32 and float64 operations in
// a fixed order, so that it is the same on every machine. What it finds is a proposal: whether it pays is judged elsewhere.
package search

// Package predict computes predictions of tensors from other tensors that the decoder has (FORMAT.md section 15): a copy, a
// cast, values that an optimizer only decayed, and the update rules of Adam, AdamW and SGD replayed on the recorded state.
//
// A prediction is a named program of float32 steps, each rounded once, so that it has the same bits on every machine. Where
// the text of the format says "fused", the product and the sum are float64 operations on float32 values followed by one
// rounding to float32: the product is exact there, so the result does not depend on whether the compiler or the processor
// fuses them. Go may fuse x*y + z on some processors unless the product is converted explicitly, hence the many float32().
package predict

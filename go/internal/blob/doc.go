// Package blob codes one tensor (FORMAT.md sections 6 to 11 and 21 to 23): a self-contained string of bytes that holds its
// value, alone or as a difference from a reference.
//
// Encoder and Decoder work chunk by chunk, so a tensor of any size takes the memory of a few chunks, and their methods say
// the order of the steps. Scratch.Encode runs all steps of a small tensor in a row.
package blob

// Package sidecoder implements the adaptive binary arithmetic coder of FORMAT.md section 4, which carries all side
// information (frequency tables, context maps, the directory), and the text coder of section 5.2 built on it.
//
// Decoders accept any input: past the end of the coded string they read zero bytes, and Finish reports what section 4
// forbids. Neither side ever panics on coded bytes.
package sidecoder

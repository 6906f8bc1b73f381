// Package rans is the entropy coder: static rANS with 32-bit states, 16-bit words and interleaved lanes (FORMAT.md section 11; the
// coder is due to J. Duda, arXiv:1311.2540, its interleaving to F. Giesen, arXiv:1402.3392).
//
// Read this first. The encoder runs from the last symbol to the first, so that the decoder runs forwards; its words therefore come out
// last first and are written from the end of the buffer down. Symbol i belongs to lane i mod N, all lanes share one stream of words,
// and a word goes to the lane whose state fell below L, in the order of the symbols. Every state starts at L in the encoder and ends there in the
// decoder, which is a free check. How many lanes a processor handles at once does not show in the result.
//
// A state lies in L .. 2^31 - 1. Decoding multiplies the high part of a state by a frequency, which is at most M - 1, so that
// a state below 2^31 stays there; it is at least 1 before the word is shifted in, so that one word always brings it back to L.
package rans

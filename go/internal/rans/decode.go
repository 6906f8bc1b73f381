package rans

import "encoding/binary"

// Decoder is the state of decoding one chunk. It carries lanes and words across blocks.
type Decoder struct {
	States [MaxLanes]uint32 // of the lanes
	Lanes  int              // 1, 4, 16 or 64
	Lane   int              // lane of the next symbol
	Words  []byte           // words not yet read, two bytes each
}

// Init starts a decoder. states holds 4*lanes bytes; ok is false unless every state is in 2^15 .. 2^31-1. words holds the words.
func (d *Decoder) Init(lanes int, states, words []byte) (ok bool) {
	d.Lanes, d.Lane, d.Words = lanes, 0, words
	ok = len(words)%2 == 0
	for i := range lanes {
		x := binary.LittleEndian.Uint32(states[4*i:])
		d.States[i] = x
		ok = ok && L <= x && x < stateLimit
	}
	return ok
}

// Finished reports whether every state is back at L and every word was read: what holds after the last symbol of an intact chunk.
func (d *Decoder) Finished() bool {
	for _, x := range d.States[:d.Lanes] {
		if x != L {
			return false
		}
	}
	return len(d.Words) == 0
}

// Decode decodes len(tokens) symbols; clusters[i] is the cluster of symbol i. ok is false when the words run out; tokens and dec are
// unspecified then. A cluster that is not in the tables gives unspecified tokens.
func (d *DecTables) Decode(tokens, clusters []uint8, dec *Decoder) (ok bool) {
	clusters = clusters[:len(tokens)]
	i := 0
	// A round of all lanes reads at most one word a lane: while that many are there, nothing needs checking.
	if n := len(tokens); n > 0 {
		n = min(n, len(dec.Words)/2)
		dec.Words = dec.Words[d.decodeGeneric(tokens[:n], clusters[:n], dec):]
		i = n
		for i < len(tokens) && len(dec.Words) >= 2 {
			n = min(len(tokens)-i, len(dec.Words)/2)
			dec.Words = dec.Words[d.decodeGeneric(tokens[i:i+n], clusters[i:i+n], dec):]
			i += n
		}
	}
	return d.decodeLast(tokens[i:], clusters[i:], dec)
}

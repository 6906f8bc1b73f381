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
	if dec.Lanes >= kernelLanes && hasKernel() && len(tokens) >= 2*dec.Lanes {
		if head := -dec.Lane & (dec.Lanes - 1); head > 0 {
			if !d.decodeAny(tokens[:head], clusters[:head], dec) {
				return false
			}
			tokens, clusters = tokens[head:], clusters[head:]
		}
		n := len(tokens) &^ (dec.Lanes - 1)
		if !d.decodeRounds(tokens[:n], clusters[:n], dec) {
			return false
		}
		tokens, clusters = tokens[n:], clusters[n:]
	}
	return d.decodeAny(tokens, clusters, dec)
}

// decodeRounds decodes whole rounds of all lanes with the kernel. A round reads at most one word a lane, so that as many rounds as the
// remaining words allow can go unchecked. At the end of the words they are read from a copy that goes on with zeros.
func (d *DecTables) decodeRounds(tokens, clusters []uint8, dec *Decoder) bool {
	for len(tokens) > 0 {
		n := min(len(tokens), len(dec.Words)/2, maxCall) &^ (dec.Lanes - 1)
		if n == 0 {
			break
		}
		dec.Words = dec.Words[d.decodeKernel(tokens[:n], clusters[:n], dec.Words, dec):]
		tokens, clusters = tokens[n:], clusters[n:]
	}
	if len(tokens) == 0 {
		return true
	}
	var pad [16 * MaxLanes]byte
	left, pos := copy(pad[:2*MaxLanes], dec.Words), 0
	for len(tokens) > 0 {
		n := min(len(tokens), (len(pad)-pos)/2) &^ (dec.Lanes - 1)
		if pos += d.decodeKernel(tokens[:n], clusters[:n], pad[pos:], dec); pos > left {
			return false
		}
		tokens, clusters = tokens[n:], clusters[n:]
	}
	dec.Words = dec.Words[pos:]
	return true
}

// decodeAny decodes any number of symbols from any lane on.
func (d *DecTables) decodeAny(tokens, clusters []uint8, dec *Decoder) bool {
	for len(tokens) > 0 && len(dec.Words) >= 2 {
		n := min(len(tokens), len(dec.Words)/2)
		dec.Words = dec.Words[d.decodeGeneric(tokens[:n], clusters[:n], dec):]
		tokens, clusters = tokens[n:], clusters[n:]
	}
	return d.decodeLast(tokens, clusters, dec)
}

package rans

// Encode codes the symbols ix[i] = context<<8 | token, whose clusters contextMap gives, with 1, 4, 16 or 64 lanes. The words are written
// into the end of buf, which has at least 2*len(ix) bytes, and returned; states[:lanes] get the states from which a decoder starts.
// Every context must lie in contextMap, every cluster and token in the tables, with a frequency that is not 0.
func (e *EncTables) Encode(ix []uint16, contextMap []uint8, lanes int, buf []byte, states []uint32) (words []byte) {
	states = states[:lanes]
	for i := range states {
		states[i] = L
	}
	_ = buf[:2*len(ix)]
	pos := len(buf)
	n := len(ix) &^ (lanes - 1)
	if lanes >= kernelLanes && hasKernel() && n > 0 {
		pos = e.encodeGeneric(ix[n:], contextMap, states, buf, pos)
		return buf[e.encodeRounds(ix[:n], contextMap, states, buf, pos):]
	}
	return buf[e.encodeGeneric(ix, contextMap, states, buf, pos):]
}

// encodeRounds encodes whole rounds of all lanes with the kernel, the last ones first. There are two bytes below pos for each symbol.
func (e *EncTables) encodeRounds(ix []uint16, contextMap []uint8, states []uint32, buf []byte, pos int) int {
	var offsets [32]uint32
	if len(contextMap) <= len(offsets) {
		for c, cluster := range contextMap {
			offsets[c] = uint32(cluster) << e.stride
		}
		for len(ix) > 0 {
			from := (len(ix) - 1) / maxCall * maxCall
			pos -= e.encodeKernel(ix[from:], &offsets, states, buf[:pos])
			ix = ix[:from]
		}
		return pos
	}
	var first [256]uint16 // entry of a context; at most 2^14 are in the tables
	for c, cluster := range contextMap {
		first[c] = uint16(cluster) << e.stride
	}
	var mapped [4096]uint16
	for len(ix) > 0 {
		from := (len(ix) - 1) / len(mapped) * len(mapped)
		out := mapped[:len(ix)-from]
		for i, v := range ix[from:] {
			out[i&(len(mapped)-1)] = first[v>>8] + v&255
		}
		pos -= e.encodeKernel(out, nil, states, buf[:pos])
		ix = ix[:from]
	}
	return pos
}

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
	pos := e.encodeGeneric(ix, contextMap, states, buf, len(buf))
	return buf[pos:]
}

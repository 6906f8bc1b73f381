package blob

import (
	"encoding/binary"

	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// chunkTable is the table at the end of the blob of a tensor with several chunks (FORMAT.md section 6). The slices have an
// entry a chunk; those that the plan does not need are nil.
type chunkTable struct {
	lengths    []uint64   // of the chunk bodies: coded plans
	hashes     []uint64   // of the value's chunks
	slotHashes [][]uint64 // of the chunks of each slot: coded plans; nil for slots that have none
}

const tableLengthSize = 4

// append writes the table and its length.
func (t *chunkTable) append(b []byte) []byte {
	start := len(b)
	for j, h := range t.hashes {
		if t.lengths != nil {
			b = wire.AppendVarint(b, t.lengths[j])
		}
		b = binary.LittleEndian.AppendUint64(b, h)
		for _, hashes := range t.slotHashes {
			if hashes != nil {
				b = binary.LittleEndian.AppendUint64(b, hashes[j])
			}
		}
	}
	return binary.LittleEndian.AppendUint32(b, uint32(len(b)-start))
}

// size is the number of bytes that append writes.
func (t *chunkTable) size() uint64 {
	n := uint64(tableLengthSize) + 8*uint64(len(t.hashes))
	for _, hashes := range t.slotHashes {
		n += 8 * uint64(len(hashes))
	}
	for _, l := range t.lengths {
		n += uint64(wire.VarintLen(l))
	}
	return n
}

// tableSize returns the size of the table, its length field included, of a blob of nbytes that ends with these bytes.
func tableSize(end []byte, nbytes uint64) (uint64, error) {
	size := uint64(binary.LittleEndian.Uint32(end[len(end)-tableLengthSize:])) + tableLengthSize
	if size > nbytes {
		return 0, fault.Corrupt("a chunk table of %d bytes in a blob of %d", size, nbytes)
	}
	return size, nil
}

// readChunkTable parses the table of n chunks; b ends with the length field. Coded plans have lengths, and the hashes of
// those slots for which slots says so.
func readChunkTable(b []byte, n uint64, coded bool, slots []SlotRecord) (*chunkTable, error) {
	r := wire.NewReader(b[:len(b)-tableLengthSize])
	if n > uint64(r.Len())/8 {
		return nil, fault.Corrupt("the chunk table is too short for %d chunks", n)
	}
	t := &chunkTable{hashes: make([]uint64, n)}
	if coded {
		t.lengths = make([]uint64, n)
		t.slotHashes = make([][]uint64, len(slots))
		for i := range slots {
			if hashed(slots[i].Role) {
				t.slotHashes[i] = make([]uint64, n)
			}
		}
	}
	for j := range t.hashes {
		if coded {
			t.lengths[j] = r.Varint()
		}
		t.hashes[j] = r.U64()
		for _, hashes := range t.slotHashes {
			if hashes != nil {
				hashes[j] = r.U64()
			}
		}
	}
	if err := r.Err(); err != nil {
		return nil, fault.Corrupt("chunk table: %s", fault.From(err).Msg)
	}
	if r.Len() > 0 {
		return nil, fault.Corrupt("chunk table: %d bytes after its end", r.Len())
	}
	return t, nil
}

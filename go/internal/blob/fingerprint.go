package blob

import (
	"encoding/binary"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Hash is H of FORMAT.md section 1: XXH3-64 with seed 0.
func Hash(b []byte) uint64 { return xxh3.Hash(b) }

// Hash32 is H32 of section 1.
func Hash32(b []byte) uint32 { return uint32(xxh3.Hash(b)) }

// fingerprint is the fingerprint of a value (section 3) with these chunk hashes.
func (g *Geometry) fingerprint(hashes []uint64) uint64 {
	return g.fingerprintOf(func(j uint64) uint64 { return hashes[j] })
}

// fingerprintOf is fingerprint with the hash of each chunk as a function.
func (g *Geometry) fingerprintOf(hash func(j uint64) uint64) uint64 {
	var memory [256]byte
	head := appendIdentity(memory[:0], g)
	n := g.Chunks()
	if n <= SmallChunks {
		for j := range n {
			head = binary.LittleEndian.AppendUint64(head, hash(j))
		}
		return Hash(head)
	}
	h := NewHasher()
	defer h.Release()
	h.Write(head)
	var block [4096]byte
	fill := 0
	for j := range n {
		binary.LittleEndian.PutUint64(block[fill:], hash(j))
		if fill += 8; fill == len(block) {
			h.Write(block[:])
			fill = 0
		}
	}
	h.Write(block[:fill])
	return h.Sum64()
}

var hashers = sync.Pool{New: func() any { return xxh3.New() }}

// Fingerprint is the fingerprint of the value that data holds.
func (g *Geometry) Fingerprint(data []byte) uint64 {
	return g.fingerprintOf(func(j uint64) uint64 {
		from, to := g.Chunk(j)
		return Hash(data[from:to])
	})
}

// appendIdentity appends what the fingerprint covers apart from the chunk hashes.
func appendIdentity(dst []byte, g *Geometry) []byte {
	dst = append(dst, g.DType.Code)
	if g.DType.Code == dtype.CodeNamed {
		dst = wire.AppendString(dst, g.DType.Name)
		dst = wire.AppendVarint(dst, uint64(g.DType.ItemSize))
	}
	dst = wire.AppendVarint(dst, uint64(len(g.Shape)))
	for _, n := range g.Shape {
		dst = wire.AppendVarint(dst, n)
	}
	return dst
}

// Hasher computes Hash of bytes that come in pieces.
type Hasher struct{ *xxh3.Hasher }

// NewHasher takes a Hasher from a pool.
func NewHasher() Hasher {
	h := hashers.Get().(*xxh3.Hasher)
	h.Reset()
	return Hasher{h}
}

// Release gives h back to the pool.
func (h Hasher) Release() { hashers.Put(h.Hasher) }

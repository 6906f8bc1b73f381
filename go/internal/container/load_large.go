package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// maxMachine is beyond what any machine addresses: constants of more bytes are not checked.
const maxMachine = 1 << 47

// largeLoad is a large tensor that is read and decoded chunk by chunk.
type largeLoad struct {
	l       *loader
	job     *job
	decoder blob.Decoder
	opened  phase

	hasher blob.Hasher // of the blob, where all of it is read
}

func newLargeLoad(l *loader, j *job) *largeLoad {
	g := &largeLoad{l: l, job: j}
	g.opened.start(1)
	return g
}

// steps is the number of chunks to decode, and at least one.
func (g *largeLoad) steps() int { return max(1, int(g.job.last-g.job.first)) }

// openStep reads and checks everything but the chunks.
func (g *largeLoad) openStep(int) schedule.Step {
	return schedule.Step{Run: func(worker int) error {
		g.opened.do(true, func() {
			if err := g.open(worker); err != nil {
				g.job.fail(0, err)
			}
		}, nil)
		return g.verdict()
	}}
}

// verdict is the error of the job, unless damaged tensors are only noted.
func (g *largeLoad) verdict() error {
	if g.l.opt.Salvage {
		return nil
	}
	g.job.mu.Lock()
	defer g.job.mu.Unlock()
	return g.job.item.Err
}

func (g *largeLoad) open(worker int) error {
	j := g.job
	if j.failedBefore(0) {
		return nil
	}
	t := &j.entry.Tail
	var memory [16]byte
	prefix := memory[:t.prefixSize()]
	if err := readAt(g.l.r, prefix, t.Offset-t.prefixSize()); err != nil {
		return err
	}
	if err := t.checkPrefix(prefix); err != nil {
		return err
	}
	geometry := j.entry.Geometry
	if t.Plan == blob.PlanConstant && geometry.NBytes() > maxMachine {
		return fault.Limit("a tensor of %d bytes", geometry.NBytes())
	}
	if err := g.decoder.Open(geometry, t.record(), g.read); err != nil {
		return err
	}
	return g.decoder.CheckConstant(g.l.scratch(worker))
}

// read is the blob.Source of the tensor.
func (g *largeLoad) read(from, to uint64) ([]byte, error) {
	b := make([]byte, to-from)
	return b, readAt(g.l.r, b, g.job.entry.Tail.Offset+from)
}

// chunkStep decodes one chunk. The checksum of the blob is computed as the chunks pass by in order.
func (g *largeLoad) chunkStep(i int) schedule.Step {
	var coded, memory []byte
	chunk := g.job.first + uint64(i)
	return schedule.Step{
		Run: func(worker int) error {
			if g.opened.wait() && chunk < g.job.last && !g.job.failedBefore(chunk) {
				memory = g.l.memory.get()
				var err error
				if coded, err = g.chunk(chunk, &memory, g.l.scratch(worker)); err != nil {
					g.job.fail(chunk, err)
				}
			}
			return g.verdict()
		},
		Emit: func() error {
			if !g.job.failedBefore(chunk) {
				if err := g.pass(chunk, coded); err != nil {
					g.job.fail(chunk, err)
				}
			}
			if memory != nil {
				g.l.memory.put(memory)
			}
			return g.verdict()
		},
	}
}

// chunk reads and decodes a chunk and returns its coded bytes. Stored ones are read to where they belong.
func (g *largeLoad) chunk(chunk uint64, memory *[]byte, s *blob.Scratch) ([]byte, error) {
	j := g.job
	from, to := g.decoder.Extent(chunk)
	var coded []byte
	if g.decoder.Stored() && !g.l.checkOnly {
		coded = j.place(g.decoder.Geometry().Chunk(chunk))
	}
	if coded == nil {
		*memory = grown(*memory, to-from)
		coded = *memory
	}
	if err := readAt(g.l.r, coded, j.entry.Tail.Offset+from); err != nil {
		return nil, err
	}
	if err := j.chunk(&g.decoder, chunk, coded, s, g.l.checkOnly); err != nil {
		return nil, err
	}
	if !g.l.checkOnly {
		first, last := g.decoder.Geometry().Chunk(chunk)
		g.l.opt.progress(min(last, j.to) - max(first, j.from))
	}
	return coded, nil
}

// pass adds a chunk to the checksum, the first with what comes before it and the last with what comes after, and checks it.
func (g *largeLoad) pass(chunk uint64, coded []byte) error {
	j := g.job
	if !j.whole {
		return nil
	}
	t := &j.entry.Tail
	if chunk == j.first {
		g.hasher = blob.NewHasher()
		from, _ := g.decoder.Extent(chunk)
		if err := g.hashPart(0, from); err != nil {
			return err
		}
	}
	g.hasher.Write(coded)
	if chunk+1 < j.last {
		return nil
	}
	_, to := g.decoder.Extent(chunk)
	if err := g.hashPart(to, t.NBytes); err != nil {
		return err
	}
	sum := g.hasher.Sum64()
	g.hasher.Release()
	if checksumOfHash(t.NBytes, sum) != t.Checksum {
		return fault.Corrupt("the blob does not have its checksum")
	}
	return nil
}

// hashPart adds a range of the blob that no chunk covers.
func (g *largeLoad) hashPart(from, to uint64) error {
	const piece = 1 << 20
	for ; from < to; from += piece {
		b, err := g.read(from, min(from+piece, to))
		if err != nil {
			return err
		}
		g.hasher.Write(b)
	}
	return nil
}

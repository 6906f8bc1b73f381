package container

import (
	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// maxMachine is beyond what any machine addresses: constants of more bytes are not checked.
const maxMachine = 1 << 47

// familyLoad is a large tensor, or a family of tensors, that is read and decoded chunk by chunk: chunk i of a member needs
// only chunk i of others.
type familyLoad struct {
	l *loader
	f *family

	opened      phase
	first, last uint64 // chunks
}

func newFamilyLoad(l *loader, f *family) *familyLoad {
	g := &familyLoad{l: l, f: f, first: ^uint64(0)}
	for _, m := range f.members {
		if first, last := m.chunks(); first < last {
			g.first, g.last = min(g.first, first), max(g.last, last)
		}
	}
	g.first = min(g.first, g.last)
	g.opened.start(1)
	return g
}

// steps is the number of chunks to decode, and at least one.
func (g *familyLoad) steps() int { return max(1, int(g.last-g.first)) }

// openStep reads and checks everything but the chunks.
func (g *familyLoad) openStep(int) schedule.Step {
	return schedule.Step{Run: func(worker int) error {
		g.opened.do(true, func() {
			for _, m := range g.f.members {
				if m.idle() || m.inherit(0) || m.error() != nil {
					continue
				}
				if err := g.open(m, worker); err != nil {
					m.fail(0, err)
				}
			}
		}, nil)
		return g.verdict()
	}}
}

// verdict is the error of the first member that has one, unless damaged tensors are only noted.
func (g *familyLoad) verdict() error {
	if g.l.opt.Salvage {
		return nil
	}
	for _, m := range g.f.members {
		if err := m.error(); err != nil {
			return err
		}
	}
	return nil
}

// idle reports whether nothing of the tensor is decoded; it lends its reference.
func (m *member) idle() bool {
	first, last := m.chunks()
	return first == last && m.entry.Geometry.Elements > 0
}

func (g *familyLoad) open(m *member, worker int) error {
	t := &m.entry.Tail
	var memory [16]byte
	prefix := memory[:t.prefixSize()]
	if err := readAt(g.l.r, prefix, t.Offset-t.prefixSize()); err != nil {
		return err
	}
	if err := t.checkPrefix(prefix); err != nil {
		return err
	}
	geometry := m.entry.Geometry
	if t.Plan == blob.PlanConstant && geometry.NBytes() > maxMachine {
		return fault.Limit("a tensor of %d bytes", geometry.NBytes())
	}
	read := func(from, to uint64) ([]byte, error) { return g.read(m, from, to) }
	if err := m.decoder.Open(geometry, g.l.record(t), read); err != nil {
		return err
	}
	return m.decoder.CheckConstant(g.l.scratch(worker))
}

// read is the blob.Source of a member.
func (g *familyLoad) read(m *member, from, to uint64) ([]byte, error) {
	b := make([]byte, to-from)
	return b, readAt(g.l.r, b, m.entry.Tail.Offset+from)
}

// chunkStep decodes one chunk of every member that wants it. The checksums of the blobs are computed as the chunks pass by in
// order.
func (g *familyLoad) chunkStep(i int) schedule.Step {
	chunk := g.first + uint64(i)
	work := &chunkWork{g: g, chunk: chunk, parts: make([]chunkPart, len(g.f.members))}
	return schedule.Step{
		Run: func(worker int) error {
			if g.opened.wait() && chunk < g.last {
				work.run(g.l.scratch(worker))
			}
			return g.verdict()
		},
		Emit: func() error {
			for k, m := range g.f.members {
				if !m.idle() && m.failedBefore(chunk) == nil {
					if err := g.pass(m, chunk, work.parts[k].coded); err != nil {
						m.fail(chunk, err)
					}
				}
				work.parts[k].release(g.l)
			}
			return g.verdict()
		},
	}
}

// chunkWork is the decoding of one chunk of a family.
type chunkWork struct {
	g     *familyLoad
	chunk uint64
	parts []chunkPart
}

// chunkPart is what belongs to a member.
type chunkPart struct {
	coded    []byte // bytes of the blob
	value    []byte // decoded
	memory   []byte // borrowed for coded
	decoded  []byte // borrowed for value
	delivery bool   // value still has to be copied to the outputs
}

func (p *chunkPart) release(l *loader) {
	if p.memory != nil {
		l.memory.put(p.memory)
	}
	if p.decoded != nil {
		l.memory.put(p.decoded)
	}
	*p = chunkPart{}
}

// run decodes the members one after the other. Where an output lies over a reference that another member may need, values
// are delivered at the end.
func (w *chunkWork) run(s *blob.Scratch) {
	for k, m := range w.g.f.members {
		if !m.wants(w.chunk) || m.failedBefore(w.chunk) != nil || m.inherit(w.chunk) {
			continue
		}
		if err := w.decode(m, &w.parts[k], s); err != nil {
			m.fail(w.chunk, err)
		}
	}
	l := w.g.l
	for k, m := range w.g.f.members {
		p := &w.parts[k]
		if p.delivery {
			from, _ := m.entry.Geometry.Chunk(w.chunk)
			m.deliver(p.value, from)
		}
		if m.wants(w.chunk) && !l.checkOnly && m.failedBefore(w.chunk) == nil {
			l.opt.progress(m.done(m.entry.Geometry.Chunk(w.chunk)))
		}
	}
}

// decode reads and decodes the chunk of one member. Stored ones are read to where they belong.
func (w *chunkWork) decode(m *member, p *chunkPart, s *blob.Scratch) error {
	l := w.g.l
	first, last := m.entry.Geometry.Chunk(w.chunk)
	apart := len(w.g.f.members) > 1 && (w.g.f.inPlace || m.place(first, last) == nil)
	from, to := m.decoder.Extent(w.chunk)
	if m.decoder.Stored() && !l.checkOnly && !apart {
		p.coded = m.place(first, last)
	}
	if p.coded == nil {
		p.memory = grown(l.memory.get(), to-from)
		p.coded = p.memory
	}
	if err := readAt(l.r, p.coded, m.entry.Tail.Offset+from); err != nil {
		return err
	}
	if apart && !l.checkOnly {
		p.decoded = grown(l.memory.get(), last-first)
	}
	var err error
	p.value, err = l.chunk(m, &m.decoder, w.chunk, p.coded, w.value, p.decoded, s)
	p.delivery = err == nil && p.decoded != nil && p.value != nil
	return err
}

// value is the decoded chunk of a member.
func (w *chunkWork) value(m *member) []byte {
	for k, other := range w.g.f.members {
		if other == m {
			return w.parts[k].value
		}
	}
	return nil
}

// pass adds a chunk to the checksum, the first with what comes before it and the last with what comes after, and checks it.
func (g *familyLoad) pass(m *member, chunk uint64, coded []byte) error {
	if !m.whole {
		return nil
	}
	t := &m.entry.Tail
	n := m.entry.Geometry.Chunks()
	if chunk == 0 {
		m.hasher = blob.NewHasher()
		from, _ := m.decoder.Extent(chunk)
		if err := g.hashPart(m, 0, from); err != nil {
			return err
		}
	}
	m.hasher.Write(coded)
	if chunk+1 < n {
		return nil
	}
	_, to := m.decoder.Extent(chunk)
	if err := g.hashPart(m, to, t.NBytes); err != nil {
		return err
	}
	sum := m.hasher.Sum64()
	m.hasher.Release()
	if checksumOfHash(t.NBytes, sum) != t.Checksum {
		return fault.Corrupt("the blob does not have its checksum")
	}
	return nil
}

// hashPart adds a range of the blob that no chunk covers.
func (g *familyLoad) hashPart(m *member, from, to uint64) error {
	const piece = 1 << 20
	for ; from < to; from += piece {
		b, err := g.read(m, from, min(from+piece, to))
		if err != nil {
			return err
		}
		m.hasher.Write(b)
	}
	return nil
}

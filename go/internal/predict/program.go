package predict

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ulpack/ulpack/go/internal/dtype"
	"github.com/ulpack/ulpack/go/internal/wire"
)

// Programs of FORMAT.md section 15: on the wire.
const (
	Copy      = 1
	Cast      = 2
	Decay     = 3
	AdamV     = 4
	AdamW     = 5
	SGDWeight = 6
)

// Forms of a decay step: on the wire.
const (
	Scale   = 0 // p = fl(p * c)
	Shrink  = 1 // p = fl(p - c * p), fused
	forms   = 2
	maxRuns = 64
	// MaxSteps bounds the work that a file can ask for.
	MaxSteps = 4096
)

// MaxSlots is the largest number of tensors that a program reads.
const MaxSlots = 3

const float32Code = 3

// Run is a row of equal decay steps.
type Run struct {
	Form  uint8
	C     float32
	Count int
}

// Program is a prediction rule. Slots are positions in the tensor's list of roles; Consts are used by AdamV (b2, w1, w2),
// AdamW (c, s2, eps, a) and SGDWeight (c, a); Runs by Decay.
type Program struct {
	Code   uint8
	Slots  [MaxSlots]uint8
	Consts [4]float32
	Runs   []Run

	decayed *decayed // see Prepare
}

var shapes = [...]struct{ slots, consts int }{
	Copy: {1, 0}, Cast: {1, 0}, Decay: {1, 0}, AdamV: {3, 3}, AdamW: {3, 4}, SGDWeight: {2, 2},
}

// Known reports whether code is a program of this version.
func Known(code uint8) bool { return code >= Copy && code <= SGDWeight }

// NumSlots is the number of slots that the program reads.
func (p *Program) NumSlots() int { return shapes[p.Code].slots }

// Append writes the program: code, slots, constants (section 15).
func (p *Program) Append(b []byte) []byte {
	s := shapes[p.Code]
	b = append(b, p.Code)
	b = append(b, p.Slots[:s.slots]...)
	for _, c := range p.Consts[:s.consts] {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(c))
	}
	if p.Code != Decay {
		return b
	}
	b = wire.AppendVarint(b, uint64(len(p.Runs)))
	for _, r := range p.Runs {
		b = append(b, r.Form)
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(r.C))
		b = wire.AppendVarint(b, uint64(r.Count))
	}
	return b
}

// Unsupported is the error of Read for a program that this version does not know.
type Unsupported uint8

func (u Unsupported) Error() string { return fmt.Sprintf("prediction program %d", uint8(u)) }

// Read parses a program. Slots are not checked against the tensor's roles (see Check).
func Read(r *wire.Reader) (Program, error) {
	p := Program{Code: r.U8()}
	if err := r.Err(); err != nil {
		return p, err
	}
	if !Known(p.Code) {
		return p, Unsupported(p.Code)
	}
	s := shapes[p.Code]
	for i := range s.slots {
		p.Slots[i] = r.U8()
	}
	for i := range s.consts {
		p.Consts[i] = math.Float32frombits(r.U32())
	}
	if p.Code == Decay {
		if err := p.readRuns(r); err != nil {
			return p, err
		}
	}
	return p, r.Err()
}

func (p *Program) readRuns(r *wire.Reader) error {
	n := r.Varint()
	if r.Err() != nil {
		return nil
	}
	if n < 1 || n > maxRuns {
		return fmt.Errorf("%d runs of decay steps", n)
	}
	steps := uint64(0)
	for range n {
		run := Run{Form: r.U8(), C: math.Float32frombits(r.U32())}
		count := r.Varint()
		if r.Err() != nil {
			return nil
		}
		if run.Form >= forms {
			return fmt.Errorf("form %d of a decay step", run.Form)
		}
		if count < 1 || count > MaxSteps || steps+count > MaxSteps {
			return fmt.Errorf("more than %d decay steps, or none in a run", MaxSteps)
		}
		steps += count
		run.Count = int(count)
		p.Runs = append(p.Runs, run)
	}
	return nil
}

// Check checks the program against the dtype of the tensor and those of its roles.
func (p *Program) Check(own *dtype.Info, roles []dtype.Info) error {
	for _, s := range p.Slots[:p.NumSlots()] {
		if int(s) >= len(roles) {
			return fmt.Errorf("slot %d of %d", s, len(roles))
		}
		d := &roles[s]
		var ok bool
		switch p.Code {
		case Copy:
			ok = d.Code == own.Code && d.ItemSize == own.ItemSize && d.Name == own.Name
		case Cast:
			ok = castable(d) && castable(own) && d.Code != own.Code
		case Decay:
			ok = d.Code == own.Code && castable(own) && own.Width <= 32
		default:
			ok = d.Code == float32Code && own.Code == float32Code
		}
		if !ok {
			return fmt.Errorf("program %d from dtype %d to dtype %d", p.Code, d.Code, own.Code)
		}
	}
	return nil
}

func castable(d *dtype.Info) bool { return d.Float && d.Width >= 16 && d.Components == 1 }

// Predict writes the prediction of a row of lane values to dst. slots holds the same lane values of each role, in the order
// of the tensor's roles; own and roles passed Check. dst may be the memory of no slot but the first of the program.
func (p *Program) Predict(dst []byte, slots [][]byte, own *dtype.Info, roles []dtype.Info) {
	a := slots[p.Slots[0]]
	switch p.Code {
	case Copy:
		copy(dst, a)
	case Cast:
		castLanes(dst, a, own, &roles[p.Slots[0]])
	case Decay:
		p.decay(dst, a, own)
	case AdamV:
		adamV(dst, a, slots[p.Slots[1]], slots[p.Slots[2]], p.Consts[0], p.Consts[1], p.Consts[2])
	case AdamW:
		adamW(dst, a, slots[p.Slots[1]], slots[p.Slots[2]], p.Consts[0], p.Consts[1], p.Consts[2], p.Consts[3])
	case SGDWeight:
		sgdWeight(dst, a, slots[p.Slots[1]], p.Consts[0], p.Consts[1])
	}
}

var names = [...]string{
	Copy: "copy", Cast: "cast", Decay: "decay", AdamV: "adam second moment", AdamW: "adamw weight", SGDWeight: "sgd weight",
}

// Name names the program for display.
func (p *Program) Name() string { return names[p.Code] }

package ulpack

import (
	"io"
	"unicode/utf8"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/container"
	"github.com/ulpack/ulpack/go/internal/fault"
	"github.com/ulpack/ulpack/go/internal/schedule"
)

// Options steer Save and Load. The zero value is the default.
type Options struct {
	Threads  int     // 0: number of CPUs
	Cancel   *int32  // set to a non-zero value (atomically) to stop the call after the chunks in flight; may be nil
	Progress *uint64 // counts up by the raw bytes done, atomically; may be nil

	Effort int // Save: 1 fast, 2 default, 3 max, 0 the default; recorded in the file

	// Relate lets Save store tensors as they follow from others of the file, as the moments and weights of an optimizer do.
	// Loading a tensor then may take references of others: see Item. With effort 1 it changes nothing.
	Relate bool

	Salvage    bool // Load: go on after a bad tensor; the verdict is in its item
	VerifyOnly bool // Load: check everything and write nothing
}

const defaultEffort = 2

// Saved says what became of a tensor.
type Saved struct {
	Plan        uint8  // plan code of FORMAT.md section 6
	NBytes      int64  // of its blob
	Fingerprint uint64 // of its value
	Detail      uint64 // predictor | token map << 8 | clusters << 16, for display; 0 unless the plan is coded
}

// SaveBound returns an upper bound of the size of the file that Save writes for these tensors. Their data is not read, but
// whether there is a reference counts.
func SaveBound(tensors []Tensor, structure, metadata []byte) (bound int64, err error) {
	err = guard(func() error {
		d, err := directory(tensors, structure, metadata, Options{})
		if err != nil {
			return err
		}
		bound, err = container.SaveBound(d)
		return err
	})
	return bound, err
}

// Save writes a file of the tensors, in their order, to w. structure is the caller's nested state (FORMAT.md section 12; empty
// for a flat dict of the tensors), metadata free UTF-8 text. written counts what w has accepted, also after an error; saved
// has an entry a tensor. Memory stays bounded by a few chunks a thread.
func Save(w io.Writer, tensors []Tensor, structure, metadata []byte, opt Options) (saved []Saved, written int64, err error) {
	err = guard(func() error {
		d, err := directory(tensors, structure, metadata, opt)
		if err != nil {
			return err
		}
		data := make([]container.Data, len(tensors))
		for i := range tensors {
			if err := tensors[i].checkData(&d.Tensors[i].Geometry); err != nil {
				return fault.From(err).At(i, -1)
			}
			data[i] = container.Data{Target: tensors[i].Data, Ref: tensors[i].Ref}
		}
		common, err := opt.common()
		if err != nil {
			return err
		}
		var results []blob.Result
		results, written, err = container.Save(w, d, data, container.SaveOptions{Options: common, Relate: opt.Relate})
		if err != nil {
			return err
		}
		saved = make([]Saved, len(results))
		for i := range results {
			saved[i] = savedOf(&results[i])
		}
		return nil
	})
	return saved, written, err
}

func savedOf(r *blob.Result) Saved {
	s := Saved{Plan: r.Plan, NBytes: int64(r.NBytes), Fingerprint: r.Fingerprint}
	if blob.IsCoded(r.Plan) {
		s.Detail = uint64(r.Detail.Predictor) | uint64(r.Detail.TokenMap)<<8 | uint64(r.Detail.Clusters)<<16
	}
	return s
}

// directory checks everything about the tensors but their memory.
func directory(tensors []Tensor, structure, metadata []byte, opt Options) (*container.Directory, error) {
	if opt.Effort < 0 || opt.Effort > 3 {
		return nil, fault.Argument("effort %d", opt.Effort)
	}
	if !utf8.Valid(metadata) {
		return nil, fault.Argument("the metadata is not UTF-8")
	}
	if len(tensors) > container.MaxTensors {
		return nil, fault.Limit("%d tensors, at most 2^24 are possible", len(tensors))
	}
	d := &container.Directory{
		Encoder: container.EncoderVersion, Effort: defaultEffort, Metadata: string(metadata), Structure: string(structure),
		Tensors: make([]container.Entry, len(tensors)),
	}
	if opt.Effort > 0 {
		d.Effort = uint64(opt.Effort)
	}
	seen := make(map[string]struct{}, len(tensors))
	for i := range tensors {
		e, err := tensors[i].entry()
		if err != nil {
			return nil, fault.From(err).At(i, -1)
		}
		if _, twice := seen[e.Name]; twice {
			return nil, fault.Argument("the name %q appears twice", e.Name).At(i, -1)
		}
		seen[e.Name] = struct{}{}
		d.Tensors[i] = e
	}
	return d, nil
}

// common checks and returns the options that Save and Load share.
func (o *Options) common() (container.Options, error) {
	const maxThreads = 1 << 12
	if o.Threads < 0 || o.Threads > maxThreads {
		return container.Options{}, fault.Argument("%d threads", o.Threads)
	}
	return container.Options{Threads: o.Threads, Cancel: o.Cancel, Progress: o.Progress}, nil
}

// guard runs f; a panic becomes an error, and every error an *Error.
func guard(f func() error) error {
	if err := fault.From(schedule.Guarded(f)); err != nil {
		return err
	}
	return nil
}

package container

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ulpack/ulpack/go/internal/blob"
	"github.com/ulpack/ulpack/go/internal/fault"
)

// member is a tensor that is decoded: because items ask for it, or because another one needs its value or its reference.
type member struct {
	tensor     int
	entry      *Entry
	ref        []byte
	requests   []*request
	sources    []source  // by slot
	dependents []*member // that need its value
	whole      bool      // all of its chunks are decoded
	lends      bool      // its reference is in use

	decoder blob.Decoder // of large tensors and of families
	hasher  blob.Hasher  // of the blob, where all of it is read

	mu     sync.Mutex
	err    *fault.Error
	failed uint64 // chunk of err
}

// source is where a slot's chunks come from: the value of a member, or its reference.
type source struct {
	m     *member
	value bool
}

// wants reports whether chunk i has to be decoded.
func (m *member) wants(i uint64) bool {
	for _, r := range m.requests {
		if r.wants(i) {
			return true
		}
	}
	for _, d := range m.dependents {
		if d.wants(i) {
			return true
		}
	}
	return false
}

// chunks is the range of chunks of which some have to be decoded.
func (m *member) chunks() (first, last uint64) {
	first = ^uint64(0)
	join := func(a, b uint64) {
		if a < b {
			first, last = min(first, a), max(last, b)
		}
	}
	for _, r := range m.requests {
		join(r.first, r.last)
	}
	for _, d := range m.dependents {
		join(d.chunks())
	}
	return min(first, last), last
}

// fail records an error at a chunk; the one of the first chunk stays.
func (m *member) fail(chunk uint64, err error) {
	e := fault.From(err).At(m.tensor, int64(m.entry.Tail.Offset))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil || chunk < m.failed {
		m.err, m.failed = e, chunk
	}
}

// error is the error, nil if there is none.
func (m *member) error() *fault.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// failedBefore returns the error if an earlier chunk than this, or this, has failed.
func (m *member) failedBefore(chunk uint64) *fault.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil && m.failed <= chunk {
		return m.err
	}
	return nil
}

// report gives the error to the items.
func (m *member) report() {
	if err := m.error(); err != nil {
		for _, r := range m.requests {
			r.item.Err = err
		}
	}
}

// done is the number of bytes that items asked for of the bytes from .. to.
func (m *member) done(from, to uint64) (n uint64) {
	for _, r := range m.requests {
		if lo, hi := max(from, r.from), min(to, r.to); lo < hi {
			n += hi - lo
		}
	}
	return n
}

// slotError names the tensor of an error of a slot.
func (m *member) slotError(err error) error {
	var slot *blob.SlotError
	if !errors.As(err, &slot) {
		return err
	}
	other := m.sources[slot.Slot].m
	return fault.Reference("%s is %v", other.refName(m), err)
}

// refName names the reference of the member for an error of another one.
func (m *member) refName(of *member) string {
	if of == m {
		return fmt.Sprintf("the reference %q", m.entry.RefName)
	}
	return fmt.Sprintf("the reference %q of %q, which this tensor needs,", m.entry.RefName, m.entry.Name)
}

// sameMemory reports whether two slices are the same.
func sameMemory(a, b []byte) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

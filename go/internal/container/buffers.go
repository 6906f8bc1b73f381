package container

import "sync"

// holdBytes bounds the coded chunks of large tensors that wait for the length of their blob, which the file states before
// it. Chunks beyond the bound are coded a second time when it is their turn.
const holdBytes = 1 << 28

// buffers lends memory for coded bytes.
type buffers struct {
	mu     sync.Mutex
	free   [][]byte
	held   int // bytes that hold granted
	budget int
}

// get returns an empty buffer, with room for n bytes if a free one has it.
func (b *buffers) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.free) == 0 {
		return nil
	}
	last := len(b.free) - 1
	buf := b.free[last]
	b.free = b.free[:last]
	return buf[:0]
}

// put takes a buffer back.
func (b *buffers) put(buf []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, buf)
}

// hold asks to keep n bytes for longer.
func (b *buffers) hold(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+n > b.budget {
		return false
	}
	b.held += n
	return true
}

// drop returns n bytes of what hold granted.
func (b *buffers) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
}

package container

import "sync"

// buffers lends memory for coded bytes.
type buffers struct {
	mu   sync.Mutex
	free [][]byte
}

// get returns an empty buffer, with room for some bytes if there is a free one.
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

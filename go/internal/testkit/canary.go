// Package testkit is what the tests of several rooms share: buffers with canaries, edge inputs of every dtype and synthetic
// checkpoints. Only tests import it.
package testkit

import "testing"

const (
	canary     = 0x5a
	canarySize = 256
)

// Guarded is a buffer between two runs of canary bytes.
type Guarded struct {
	all []byte
	n   int
}

// Guard returns a buffer of n bytes, filled with fill. shift moves its start, for unaligned buffers.
func Guard(n, shift int, fill byte) *Guarded {
	g := &Guarded{all: make([]byte, canarySize+shift+n+canarySize), n: n}
	g.all = g.all[shift:]
	for i := range g.all {
		g.all[i] = canary
	}
	for i := range g.Bytes() {
		g.Bytes()[i] = fill
	}
	return g
}

// Bytes is the buffer. Its capacity ends where it ends.
func (g *Guarded) Bytes() []byte { return g.all[canarySize:][:g.n:g.n] }

// Check fails the test if a canary was overwritten.
func (g *Guarded) Check(t testing.TB) {
	t.Helper()
	for i, b := range g.all {
		if (i < canarySize || i >= canarySize+g.n) && b != canary {
			t.Fatalf("byte %d beside a buffer of %d bytes was overwritten with %#x", i-canarySize, g.n, b)
		}
	}
}

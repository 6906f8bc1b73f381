package fault

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestError(t *testing.T) {
	e := Corrupt("bad %d", 7)
	assert.EqualError(t, e, "corrupt: bad 7")
	assert.EqualError(t, e.At(3, 99), "corrupt: bad 7 (tensor 3) (file offset 99)")
	assert.EqualError(t, e.At(3, 99).At(4, 100), "corrupt: bad 7 (tensor 3) (file offset 99)", "the first place stays")
	assert.Equal(t, -1, e.Tensor, "At returns a copy")
}

func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range []Kind{KindArgument, KindCorrupt, KindTruncated, KindReference, KindUnsupported, KindIO, KindSpace,
		KindCancelled, KindLimit, KindInternal} {
		seen[k.String()] = true
		assert.NotContains(t, k.String(), "kind")
	}
	assert.Len(t, seen, 10)
	assert.Equal(t, "kind 55", Kind(55).String())
}

func TestFrom(t *testing.T) {
	assert.Nil(t, From(nil))
	own := Limit("x")
	assert.Same(t, own, From(fmt.Errorf("wrapped: %w", own)))
	assert.Equal(t, KindInternal, From(errors.New("x")).Kind)
}

func TestIO(t *testing.T) {
	e := IO("writing", &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC})
	assert.Equal(t, KindIO, e.Kind)
	assert.Equal(t, int(syscall.ENOSPC), e.Errno)
	assert.Contains(t, e.Msg, "writing: ")
	assert.Zero(t, IO("reading", io.ErrClosedPipe).Errno)
	own := New(KindSpace, "full")
	assert.Same(t, own, IO("writing", own))
}

package ulpack_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/ulpack"
)

// references are tensors that need their reference, small and large, by plan.
func references(t *testing.T) []ulpack.Tensor {
	same := near(info(t, codeBF16), "large identical", 6<<18, 0.01, 3)
	same.Ref = bytes.Clone(same.Data)
	smallSame := near(info(t, codeBF16), "small identical", 1000, 0.01, 4)
	smallSame.Ref = bytes.Clone(smallSame.Data)
	return []ulpack.Tensor{
		near(info(t, codeBF16), "small coded", 1000, 0.01, 1), smallSame,
		near(info(t, codeF32), "several chunks", 3<<18, 0.01, 5),
		near(info(t, codeBF16), "large coded", 6<<18, 0.01, 2), same,
	}
}

func TestWrongReference(t *testing.T) {
	list := references(t)
	file, _ := save(t, list, ulpack.Options{})
	for i := range list {
		wrong := bytes.Clone(list[i].Ref)
		wrong[len(wrong)-3] ^= 4
		for name, ref := range map[string][]byte{"one bit": wrong, "missing": nil, "short": list[i].Ref[2:], "empty": {}} {
			asked := items(list)
			asked[i].Ref = ref
			err := load(file, asked, ulpack.Options{Threads: 2})
			assert.Equal(t, ulpack.KindReference, kindOf(t, err), "%s %s", list[i].Name, name)
			assert.Equal(t, i, err.(*ulpack.Error).Tensor)

			err = load(file, asked, ulpack.Options{Threads: 2, Salvage: true})
			require.NoError(t, err)
			for k := range asked {
				if k == i {
					assert.Equal(t, ulpack.KindReference, kindOf(t, asked[k].Err))
				} else {
					assert.NoError(t, asked[k].Err)
					assert.True(t, bytes.Equal(list[k].Data, asked[k].Out))
				}
			}
		}
	}
}

func TestInPlace(t *testing.T) {
	list := append(references(t), mixture(t)...)
	for i := range 5 {
		list[i].Name += " "
	}
	file, _ := save(t, list, ulpack.Options{})
	for _, threads := range []int{1, 3} {
		asked := items(list)
		for i := range asked {
			if list[i].Ref != nil {
				asked[i].Out = bytes.Clone(list[i].Ref)
				asked[i].Ref = asked[i].Out
			}
		}
		require.NoError(t, load(file, asked, ulpack.Options{Threads: threads}))
		for i := range asked {
			assert.True(t, bytes.Equal(list[i].Data, asked[i].Out), list[i].Name)
		}
	}
}

func TestInPlaceRange(t *testing.T) {
	for _, n := range []int{1000, 6 << 18} {
		x := near(info(t, codeBF16), "x", n, 0.01, 1)
		file, _ := save(t, []ulpack.Tensor{x}, ulpack.Options{})
		ref := bytes.Clone(x.Ref)
		first, count := n/3, n/2
		item := ulpack.Item{Ref: ref, Out: ref[2*first : 2*(first+count)], First: uint64(first), Count: uint64(count)}
		require.NoError(t, load(file, []ulpack.Item{item}, ulpack.Options{}))
		want := bytes.Clone(x.Ref)
		copy(want[2*first:], x.Data[2*first:2*(first+count)])
		assert.True(t, bytes.Equal(want, ref))
	}
}

// What is decoded in place stays untouched when any blob of the call is damaged or any reference is wrong.
func TestInPlaceChecksFirst(t *testing.T) {
	list := references(t)
	whole, saved := save(t, list, ulpack.Options{})
	damaged := bytes.Clone(whole)
	damaged[index(t, whole).Tensors[3].Offset+saved[3].NBytes/2] ^= 1

	for name, c := range map[string]struct {
		file  []byte
		wrong int
		kind  ulpack.Kind
	}{
		"damaged":         {damaged, -1, ulpack.KindCorrupt},
		"wrong reference": {whole, 3, ulpack.KindReference},
	} {
		asked := items(list)
		for i := range asked {
			asked[i].Out = bytes.Clone(list[i].Ref)
			asked[i].Ref = asked[i].Out
		}
		if c.wrong >= 0 {
			asked[c.wrong].Out[len(asked[c.wrong].Out)-1] ^= 1
		}
		before := make([][]byte, len(asked))
		for i := range asked {
			before[i] = bytes.Clone(asked[i].Out)
		}
		err := load(c.file, asked, ulpack.Options{Threads: 2})
		assert.Equal(t, c.kind, kindOf(t, err), name)
		for i := range asked {
			assert.True(t, bytes.Equal(before[i], asked[i].Out), "%s: %s was touched", name, list[i].Name)
		}
	}
}

func TestOverlaps(t *testing.T) {
	a, b := near(info(t, codeBF16), "a", 1000, 0.01, 1), near(info(t, codeBF16), "b", 1000, 0.01, 2)
	file, _ := save(t, []ulpack.Tensor{a, b}, ulpack.Options{})
	buf := make([]byte, 4000)
	tied := bytes.Clone(a.Ref)
	wide := append(bytes.Clone(a.Ref), make([]byte, 2000)...)
	for name, asked := range map[string][]ulpack.Item{
		"two outputs":            {{Tensor: 0, Ref: a.Ref, Out: buf[:2000], Count: 1000}, {Tensor: 1, Ref: b.Ref, Out: buf[1998:3998], Count: 1000}},
		"reference of another":   {{Tensor: 0, Ref: a.Ref, Out: tied, Count: 1000}, {Tensor: 1, Ref: tied, Out: buf[:2000], Count: 1000}},
		"reference not at place": {{Tensor: 0, Ref: wide[:2000], Out: wide[2:2002], Count: 1000}},
	} {
		err := load(file, asked, ulpack.Options{})
		assert.Equal(t, ulpack.KindArgument, kindOf(t, err), name)
	}
	shared := []ulpack.Item{{Tensor: 0, Ref: a.Ref, Out: buf[:2000], Count: 1000}, {Tensor: 0, Ref: a.Ref, Out: buf[2000:], Count: 1000}}
	require.NoError(t, load(file, shared, ulpack.Options{}))
	assert.Equal(t, append(bytes.Clone(a.Data), a.Data...), buf)

	clear(buf)
	twice := []ulpack.Item{{Tensor: 0, Ref: tied, Out: tied, Count: 1000}, {Tensor: 0, Ref: tied, Out: buf[:2000], Count: 1000}}
	require.NoError(t, load(file, twice, ulpack.Options{}))
	assert.Equal(t, append(bytes.Clone(a.Data), a.Data...), append(bytes.Clone(tied), buf[:2000]...), "in place, and another output")
}

func TestVerifyOnly(t *testing.T) {
	list := append(references(t), mixture(t)...)
	for i := range 5 {
		list[i].Name += " "
	}
	file, _ := save(t, list, ulpack.Options{})
	bare := make([]ulpack.Item, len(list))
	for i := range list {
		bare[i] = ulpack.Item{Tensor: i, Count: ulpack.All}
	}
	require.NoError(t, load(file, bare, ulpack.Options{VerifyOnly: true}))
	asked := items(list)
	for i := range asked {
		asked[i].Out = nil
	}
	require.NoError(t, load(file, asked, ulpack.Options{VerifyOnly: true, Threads: 2}))
	for i := range asked {
		want, err := ulpack.Fingerprint(&list[i])
		require.NoError(t, err)
		assert.Equal(t, want, asked[i].Fingerprint)
		assert.Equal(t, want, bare[i].Fingerprint)
	}

	wrong := bytes.Clone(list[3].Ref)
	wrong[5] ^= 1
	asked[3].Ref = wrong
	err := load(file, asked, ulpack.Options{VerifyOnly: true, Threads: 2})
	assert.Equal(t, ulpack.KindReference, kindOf(t, err))
}

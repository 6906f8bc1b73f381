package ulpack_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ulpack/ulpack/go/ulpack"
)

// indexed is what the tests need of the index.
type indexed struct {
	FileBytes int64  `json:"file_nbytes"`
	Metadata  string `json:"metadata"`
	Structure []byte `json:"structure"`
	Tensors   []struct {
		Name     string `json:"name"`
		Offset   int64  `json:"offset"`
		NBytes   int64  `json:"blob_nbytes"`
		PlanName string `json:"plan_name"`
	} `json:"tensors"`
}

func index(t testing.TB, file []byte) (x indexed) {
	t.Helper()
	b, err := ulpack.IndexJSON(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &x))
	return x
}

func TestIndexJSON(t *testing.T) {
	near := near(info(t, codeF32), "w/ü <&>\u2028\"", 2000, 0.001, 1)
	near.Shape = []uint64{40, 50}
	near.RefName = "old"
	named := ulpack.Tensor{Name: "", DTypeName: "qint8", ItemSize: 1, Shape: nil, Data: []byte{7}, Ref: []byte{7}}
	var b bytes.Buffer
	saved, _, err := ulpack.Save(&b, []ulpack.Tensor{near, named}, []byte{0, 255, 1}, []byte(`{"step": 7}`), ulpack.Options{Effort: 3})
	require.NoError(t, err)
	got, err := ulpack.IndexJSON(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)

	require.True(t, json.Valid(got))
	assert.EqualValues(t, 1, saved[1].Plan)
	x := index(t, b.Bytes())
	assert.EqualValues(t, b.Len(), x.FileBytes)
	assert.Equal(t, `{"step": 7}`, x.Metadata)
	assert.Equal(t, []byte{0, 255, 1}, x.Structure)
	assert.Equal(t, near.Name, x.Tensors[0].Name)
	assert.EqualValues(t, saved[0].NBytes, x.Tensors[0].NBytes)

	// The order of keys and the form of values are fixed.
	start := `{"format":[1,1],"encoder":2,"effort":3,"file_nbytes":`
	assert.Equal(t, start, string(got[:len(start)]))
	end := `"plan":1,"plan_name":"identical","offset":`
	at := bytes.Index(got, []byte(end))
	require.Positive(t, at)
	assert.Contains(t, string(got[:at]), `{"name":"","dtype":0,"dtype_name":"qint8","itemsize":1,"shape":[],"nbytes":1,`)
	assert.Contains(t, string(got[at:]), `,"blob_nbytes":0,"fingerprint":"`)
	assert.Contains(t, string(got[at:]), `,"reference":{"name":"","fingerprint":"`)
	assert.Contains(t, string(got[at:]), `"},"detail":null,"roles":[{"role":0,"tensor":null,"fingerprint":"`)
	assert.Contains(t, string(got[at:]), `"}],"needs":[1]}]}`)
	assert.Contains(t, string(got[:at]), `"dtype":3,"dtype_name":"float32","itemsize":4,"shape":[40,50],"nbytes":8000,"plan":3,"plan_name":"coded","offset":`)
	assert.Contains(t, string(got[:at]), `"reference":{"name":"old","fingerprint":"`)
	assert.Contains(t, string(got[:at]), `"detail":{"predictor":1,"token_map":0,"plane_bits":`)
	assert.NotContains(t, string(got), `\u003c`)
}

func TestIndexOfDamagedBlobs(t *testing.T) {
	list := mixture(t)[6:40]
	file, saved := save(t, list, ulpack.Options{})
	good := index(t, file)
	for i, x := range good.Tensors {
		for k := range saved[i].NBytes {
			file[x.Offset+k] ^= 0xff
		}
	}
	assert.Equal(t, good, index(t, file))
}

func TestInfoJSON(t *testing.T) {
	var x map[string]any
	require.NoError(t, json.Unmarshal(ulpack.InfoJSON(), &x))
	assert.Equal(t, ulpack.Version, x["version"])
	assert.Contains(t, x["available"], "generic")
	assert.Contains(t, x["available"], x["kernels"])
	ulpack.FreeMemory()
}

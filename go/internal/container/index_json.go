package container

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/ulpack/ulpack/go/internal/blob"
)

// The layout of FORMAT.md annex A; the order of the fields is that of the keys.
type indexJSON struct {
	Format    [2]int       `json:"format"`
	Encoder   uint64       `json:"encoder"`
	Effort    uint64       `json:"effort"`
	FileBytes uint64       `json:"file_nbytes"`
	Metadata  string       `json:"metadata"`
	Structure []byte       `json:"structure"`
	Tensors   []tensorJSON `json:"tensors"`
}

type tensorJSON struct {
	Name           string         `json:"name"`
	DType          uint8          `json:"dtype"`
	DTypeName      string         `json:"dtype_name"`
	ItemSize       int            `json:"itemsize"`
	Shape          []uint64       `json:"shape"`
	NBytes         uint64         `json:"nbytes"`
	Plan           uint8          `json:"plan"`
	PlanName       string         `json:"plan_name"`
	Offset         uint64         `json:"offset"`
	BlobBytes      uint64         `json:"blob_nbytes"`
	Fingerprint    string         `json:"fingerprint"`
	Reference      *referenceJSON `json:"reference"`
	Detail         *blob.Detail   `json:"detail"`
	*relationsJSON                // nil in a file of format version 1.0
}

type relationsJSON struct {
	Roles []roleJSON `json:"roles"`
	Needs []int      `json:"needs"`
}

// roleJSON is a tensor that the blob needs.
type roleJSON struct {
	Role        uint8  `json:"role"`
	Tensor      *int   `json:"tensor"`
	Fingerprint string `json:"fingerprint"`
}

type referenceJSON struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// IndexJSON returns the index of a file in the layout of FORMAT.md annex A. It checks everything but the blobs; where the
// header of a blob is damaged its detail is null.
func IndexJSON(r io.ReaderAt, size int64) ([]byte, error) {
	x, err := ReadIndex(r, size)
	if err != nil {
		return nil, err
	}
	out := indexJSON{
		Format: [2]int{MajorFormat, int(x.Minor)}, Encoder: x.Encoder, Effort: x.Effort, FileBytes: x.Size,
		Metadata: x.Metadata, Structure: []byte(x.Structure), Tensors: make([]tensorJSON, len(x.Tensors)),
	}
	references := x.references()
	for i := range x.Tensors {
		e := &x.Tensors[i]
		g := &e.Geometry
		t := tensorJSON{
			Name: e.Name, DType: g.DType.Code, DTypeName: g.DType.Name, ItemSize: g.DType.ItemSize, Shape: g.Shape,
			NBytes: g.NBytes(), Plan: e.Tail.Plan, PlanName: blob.PlanName(e.Tail.Plan), Offset: e.Tail.Offset,
			BlobBytes: e.Tail.NBytes, Fingerprint: hex(e.Tail.Fingerprint),
		}
		if t.Shape == nil {
			t.Shape = []uint64{}
		}
		if fingerprint, needed := references[i]; needed {
			t.Reference = &referenceJSON{Name: e.RefName, Fingerprint: hex(fingerprint)}
		}
		if x.Minor > 0 {
			t.relationsJSON = &relationsJSON{Roles: x.roles(i), Needs: x.needs(i)}
		}
		if t.Detail, err = readDetail(r, e, x.Minor); err != nil {
			return nil, err
		}
		out.Tensors[i] = t
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&out); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func hex(v uint64) string { return fmt.Sprintf("%016x", v) }

// detailGuess is how much of a coded blob is read at first to find its header.
const detailGuess = 512

// roles lists the tensors that a blob needs.
func (x *Index) roles(i int) []roleJSON {
	roles := []roleJSON{}
	for _, s := range x.Tensors[i].Tail.Slots {
		role := roleJSON{Role: s.Role, Fingerprint: hex(s.Fingerprint)}
		if s.Role != blob.RoleReference {
			role.Tensor = &s.Tensor
		}
		if s.Role == blob.RoleValue {
			role.Fingerprint = hex(x.Tensors[s.Tensor].Tail.Fingerprint)
		}
		roles = append(roles, role)
	}
	return roles
}

// needs lists the tensors whose references loading tensor i takes, in their order.
func (x *Index) needs(i int) []int {
	seen, visited := map[int]bool{}, map[int]bool{}
	var visit func(int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true
		for _, s := range x.Tensors[i].Tail.Slots {
			switch s.Role {
			case blob.RoleReference:
				seen[i] = true
			case blob.RoleOtherReference:
				seen[s.Tensor] = true
			default:
				visit(s.Tensor)
			}
		}
	}
	visit(i)
	list := make([]int, 0, len(seen))
	for k := range seen {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// readDetail reads the header of a coded blob; nil if there is none or it is damaged.
func readDetail(r io.ReaderAt, e *Entry, minor uint8) (*blob.Detail, error) {
	if !blob.IsCoded(e.Tail.Plan) {
		return nil, nil
	}
	record := blob.Record{Minor: minor, Plan: e.Tail.Plan, Slots: e.Tail.Slots}
	for guess := uint64(detailGuess); ; guess *= 16 {
		b := make([]byte, min(guess, e.Tail.NBytes))
		if err := readAt(r, b, e.Tail.Offset); err != nil {
			return nil, err
		}
		detail, complete, err := blob.ReadDetail(b, &e.Geometry, &record)
		switch {
		case err == nil && complete:
			return &detail, nil
		case complete || guess >= e.Tail.NBytes:
			return nil, nil
		}
	}
}

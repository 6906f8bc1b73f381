package ulpack_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"github.com/ulpack/ulpack/go/ulpack"
)

// weights returns n float32 values around 0.02, and the same values a small step later.
func weights(n int) (before, after []byte) {
	for i := range n {
		w := float32(0.02 * math.Sin(float64(i)))
		before = binary.LittleEndian.AppendUint32(before, math.Float32bits(w))
		after = binary.LittleEndian.AppendUint32(after, math.Float32bits(w+1e-7*float32(i%5)))
	}
	return before, after
}

// A training step is saved against the step before, and restored from both.
func Example() {
	before, after := weights(10000)
	var file bytes.Buffer
	saved, written, err := ulpack.Save(&file, []ulpack.Tensor{
		{Name: "layer.weight", DType: 3, Shape: []uint64{100, 100}, Data: after, Ref: before},
	}, nil, nil, ulpack.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("plan", saved[0].Plan, "smaller by half:", written < int64(len(after)/2))

	restored := make([]byte, len(after))
	item := ulpack.Item{Tensor: 0, Ref: before, Out: restored, Count: ulpack.All}
	if err := ulpack.Load(bytes.NewReader(file.Bytes()), written, []ulpack.Item{item}, ulpack.Options{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("every bit is back:", bytes.Equal(after, restored))
	// Output:
	// plan 3 smaller by half: true
	// every bit is back: true
}

// One row of a matrix, without decoding the rest of a large one.
func ExampleLoad_range() {
	before, after := weights(10000)
	var file bytes.Buffer
	_, written, err := ulpack.Save(&file, []ulpack.Tensor{
		{Name: "layer.weight", DType: 3, Shape: []uint64{100, 100}, Data: after, Ref: before},
	}, nil, nil, ulpack.Options{})
	if err != nil {
		log.Fatal(err)
	}
	row := make([]byte, 100*4)
	items := []ulpack.Item{{Tensor: 0, Ref: before, Out: row, First: 42 * 100, Count: 100}}
	if err := ulpack.Load(bytes.NewReader(file.Bytes()), written, items, ulpack.Options{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Equal(row, after[42*400:43*400]))
	// Output: true
}

// A wrong reference is an error that says so.
func ExampleError() {
	before, after := weights(10000)
	var file bytes.Buffer
	_, written, err := ulpack.Save(&file, []ulpack.Tensor{
		{Name: "layer.weight", DType: 3, Shape: []uint64{10000}, Data: after, Ref: before},
	}, nil, nil, ulpack.Options{})
	if err != nil {
		log.Fatal(err)
	}
	items := []ulpack.Item{{Tensor: 0, Ref: after, Out: make([]byte, len(after)), Count: ulpack.All}}
	err = ulpack.Load(bytes.NewReader(file.Bytes()), written, items, ulpack.Options{})
	fmt.Println(err.(*ulpack.Error).Kind)
	// Output: wrong reference
}

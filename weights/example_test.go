package weights_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/lmserve/lmserve/weights"
)

// The example writes a file of weights and reads it back. The hash depends only on the content.
func Example() {
	f := &weights.File{
		Metadata: map[string]string{"made": "by hand"},
		Tensors: []weights.Tensor{
			weights.F32Tensor("layer.weight", []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}),
			weights.BF16Tensor("layer.bias", []int{2}, []float32{0.5, -1}),
		},
	}
	var file bytes.Buffer
	if err := weights.Write(&file, f); err != nil {
		log.Fatal(err)
	}
	again, err := weights.Read(&file, weights.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	bias, found := again.Tensor("layer.bias")
	if !found {
		log.Fatal("layer.bias is missing")
	}
	values, err := bias.Float32s()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bias.DType, bias.Shape, values, again.Metadata["made"])
	fmt.Println(again.Hash() == f.Hash())
	// Output:
	// BF16 [2] [0.5 -1] by hand
	// true
}

// An error names the place in the file, what was found and what was expected.
func ExampleRead_damaged() {
	_, err := weights.Read(bytes.NewReader([]byte{9, 0, 0, 0, 0, 0, 0, 0, '{'}), weights.Limits{})
	fmt.Println(err)
	// Output:
	// weights: header at byte 8: found 1 bytes, expected 9: file is truncated
}

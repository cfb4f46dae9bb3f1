package txl_test

import (
	"fmt"
	"log"

	"github.com/lmserve/lmserve/txl"
)

// A network learns a short cycle of tokens by gradient descent. Each step uses one segment.
func Example() {
	config := txl.Config{NLayer: 1, DModel: 16, NHead: 2, DHead: 8, DInner: 32, Vocab: 4, SegLen: 8,
		MemLen: 8}
	model, err := txl.NewModel(config)
	if err != nil {
		log.Fatal(err)
	}
	model.Init(1)
	x := txl.NewExec(1)
	defer x.Close()

	segment, memory := txl.NewSegment(config, 1, config.SegLen), txl.NewMemory(config, 1)
	arena := make([]float32, model.Layout.Size)
	gradient := model.Layout.Slices(arena)
	inputs, targets := []int32{0, 1, 2, 3, 0, 1, 2, 3}, []int32{1, 2, 3, 0, 1, 2, 3, 0}
	nll := make([]float32, len(targets))
	for step := range 300 {
		segment.Begin(x, model, nil, memory)
		segment.Extend(x, inputs)
		segment.NLL(0, targets, nll)
		if step == 0 {
			fmt.Printf("before: above 1 nat a token: %t\n", mean(nll) > 1)
		}
		segment.Backward(x, targets, gradient)
		segment.Remember(memory)
		for i, g := range arena {
			// the conversion keeps arm64 from fusing multiply and add
			model.W[i] -= float32(0.1 * g)
		}
	}
	fmt.Printf("after:  below 0.1: %t\n", mean(nll) < 0.1)
	// Output:
	// before: above 1 nat a token: true
	// after:  below 0.1: true
}

func mean(values []float32) (m float64) {
	for _, v := range values {
		m += float64(v) / float64(len(values))
	}
	return m
}

// A sampler draws tokens from log-probabilities. The same seed gives the same tokens.
func ExampleSampler() {
	logProbs := []float32{-3, -0.1, -4, -3.5}
	greedy := txl.NewSampler(txl.Sampling{}, len(logProbs))
	fmt.Println(greedy.Next(logProbs), greedy.Next(logProbs))

	drawn := make([]int, len(logProbs))
	s := txl.NewSampler(txl.Sampling{Temperature: 1, TopK: 2, Seed: 7}, len(logProbs))
	for range 1000 {
		drawn[s.Next(logProbs)]++
	}
	fmt.Println(drawn[0]+drawn[1], drawn[2]+drawn[3])
	// Output:
	// 1 1
	// 1000 0
}

// A layout uses the weight names of the reference implementation's state dict.
func ExampleLayout() {
	config, err := txl.Named("enwik8-12l")
	if err != nil {
		log.Fatal(err)
	}
	layout := txl.NewLayout(config)
	fmt.Println(layout.Size, "weights")
	i := layout.Index("layers.0.dec_attn.qkv_net.weight")
	fmt.Println(layout.Tensors[i].Name, layout.Tensors[i].Shape)
	// Output:
	// 41082112 weights
	// layers.0.dec_attn.qkv_net.weight [1536 512]
}

package checkpoint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/weights"
)

// Prefixes of names that say nothing of the tensor.
const (
	parallelPrefix = "module."      // of a model that was trained on several devices
	huggingPrefix  = "transformer." // of Hugging Face's names, but for the softmax
)

// rename gives tensors the names of the reference implementation's state dict.
func rename(tensors []Tensor) (map[string]Tensor, error) {
	parallel := !slices.ContainsFunc(tensors, func(t Tensor) bool {
		return !strings.HasPrefix(t.Name, parallelPrefix)
	})
	byName := make(map[string]Tensor, len(tensors))
	for _, t := range tensors {
		name := t.Name
		if parallel {
			name = strings.TrimPrefix(name, parallelPrefix)
		}
		name = strings.TrimPrefix(name, huggingPrefix)
		if other, again := byName[name]; again {
			return nil, malformed("tensors", quote(other.Name)+" and "+quote(t.Name), "one of them")
		}
		byName[name] = t
	}
	for _, name := range []string{"r_w_bias", "r_r_bias"} {
		if err := shareBias(byName, name); err != nil {
			return nil, err
		}
	}
	return byName, dropFrequencies(byName)
}

// shareBias makes one tensor of the attention bias that every layer has in Hugging Face's layout.
// The bias is one tensor here; layers whose biases differ, those of a model with untie_r, are
// refused.
func shareBias(byName map[string]Tensor, name string) error {
	shared, found := byName[name]
	for i := range weights.MaxTensors {
		layer := fmt.Sprintf("layers.%d.dec_attn.%s", i, name)
		t, ok := byName[layer]
		if !ok {
			break
		}
		if !found {
			shared, found = t, true
		}
		same, err := sameData(shared, t)
		if err != nil {
			return err
		}
		if !same {
			return unsupported("tensor "+quote(t.Name), "other values than in "+quote(shared.Name),
				"the same attention bias in all layers (a model with untie_r has one for each)")
		}
		delete(byName, layer)
	}
	if found {
		byName[name] = shared
	}
	return nil
}

// dropFrequencies leaves out the frequencies of the position encoding, which are no weights, and
// refuses others than the paper's.
func dropFrequencies(byName map[string]Tensor) error {
	const name = "pos_emb.inv_freq"
	t, ok := byName[name]
	if !ok {
		return nil
	}
	delete(byName, name)
	f, err := t.floats()
	if err != nil {
		return err
	}
	for i, v := range f {
		want := math.Pow(10000, -float64(i)/float64(len(f)))
		if math.Abs(float64(v)-want) > 0.01*want { // bfloat16 has a precision of 1/256
			return unsupported("tensor "+quote(t.Name)+", element "+strconv.Itoa(i),
				strconv.FormatFloat(float64(v), 'g', -1, 32), strconv.FormatFloat(want, 'g', 7, 64))
		}
	}
	return nil
}

// floats reads the tensor as float32.
func (t Tensor) floats() ([]float32, error) {
	if t.DType == "" || t.DType == weights.I64 || t.DType == weights.I32 || t.DType == weights.U8 {
		return nil, malformed("tensor "+quote(t.Name), "elements of another type",
			"floating-point numbers")
	}
	data, err := t.Load()
	if err != nil {
		return nil, err
	}
	w := weights.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Data: data}
	return w.Float32s()
}

package checkpoint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// Prefixes of names. The first two say nothing about the tensor.
const (
	parallelPrefix = "module."      // prefix in a model that was trained on several devices
	huggingPrefix  = "transformer." // prefix of Hugging Face's names, except the softmax's
	softmaxPrefix  = "crit."
)

// rename returns tensors by the names of the reference implementation's state dict.
func rename(tensors []Tensor) (map[string]Tensor, error) {
	parallel := !slices.ContainsFunc(tensors, func(t Tensor) bool {
		return !strings.HasPrefix(t.Name, parallelPrefix)
	})
	byName := make(map[string]Tensor, len(tensors))
	for _, t := range tensors {
		if err := checkName(t.Name); err != nil {
			return nil, err
		}
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
	if err := shareBiases(byName); err != nil {
		return nil, err
	}
	return byName, dropFrequencies(byName)
}

// checkName refuses names of tensors that would make errors unreadable, or a tree of modules large.
func checkName(name string) error {
	if len(name) > maxNameBytes || strconv.Quote(name) != `"`+name+`"` {
		return malformed("name of a tensor", quote(name),
			"at most "+strconv.Itoa(maxNameBytes)+" bytes of printable text")
	}
	return nil
}

// shareBiases makes one tensor from an attention bias that is equal in every layer, because Hugging
// Face's layout repeats a shared bias. It leaves different biases as they are.
func shareBiases(byName map[string]Tensor) error {
	for _, name := range attentionBiases {
		if same, err := sameInLayers(byName, name); err != nil || !same {
			return err
		}
	}
	for _, name := range attentionBiases {
		for i := 0; ; i++ {
			t, ok := byName[layerBias(i, name)]
			if !ok {
				break
			}
			putIfAbsent(byName, name, t)
			delete(byName, layerBias(i, name))
		}
	}
	return nil
}

// sameInLayers reports whether a bias is equal in all layers that have it.
func sameInLayers(byName map[string]Tensor, name string) (bool, error) {
	shared, found := byName[name]
	for i := 0; ; i++ {
		t, ok := byName[layerBias(i, name)]
		if !ok {
			return true, nil
		}
		if !found {
			shared, found = t, true
		}
		if i == 0 {
			shared.Load = sync.OnceValues(shared.Load)
		}
		if same, err := sameData(shared, t); err != nil || !same {
			return false, err
		}
	}
}

func putIfAbsent(byName map[string]Tensor, name string, t Tensor) {
	if _, there := byName[name]; !there {
		byName[name] = t
	}
}

// dropFrequencies removes the frequencies of the position encoding, which are not weights. It
// returns an error if they differ from the paper's.
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
	data, err := t.loadFloats()
	if err != nil {
		return nil, err
	}
	w := weights.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Data: data}
	return w.Float32s()
}

// loadFloats reads the data of a tensor whose elements must be floating-point numbers.
func (t Tensor) loadFloats() ([]byte, error) {
	switch t.DType {
	case weights.F64, weights.F32, weights.F16, weights.BF16:
		return t.Load()
	}
	return nil, malformed("tensor "+quote(t.Name), "elements of another type",
		"floating-point numbers")
}

// Beginnings of the names of tables and projections, for the input and for the softmax. A number
// follows and, for a table, weightSuffix. With tied weights, a state dict has the same weight under
// the input's and the softmax's name.
const (
	inputTable       = "word_emb.emb_layers."
	inputProjection  = "word_emb.emb_projs."
	outputTable      = "crit.out_layers."
	outputProjection = "crit.out_projs."
	weightSuffix     = ".weight"
)

// attentionBiases are the names of the biases that all layers share. If each layer has its own,
// layerBias returns their names.
var attentionBiases = []string{"r_w_bias", "r_r_bias"}

func layerBias(layer int, name string) string {
	return fmt.Sprintf("layers.%d.dec_attn.%s", layer, name)
}

// slot is a tensor of the reference implementation's state dict.
type slot struct {
	name  string
	shape []int
	// twin names the tensor that this slot's tensor equals in a model with tied weights, or is "".
	twin string
}

// slotsOf lists the tensors in the reference implementation's state dict for a configuration, in
// the order of txl.Layout. It lists them as for a model without ties: with the softmax's tables and
// projections, even those that the model shares with its input.
func slotsOf(c txl.Config) []slot {
	c.TieProjs, c.UntieSoftmax = nil, true
	layout := txl.NewLayout(c)
	slots := make([]slot, len(layout.Tensors))
	for i, t := range layout.Tensors {
		s := slot{name: t.Name, shape: t.Shape}
		if number, ok := strings.CutPrefix(t.Name, outputProjection); ok {
			if s.twin = inputProjection + number; layout.Index(s.twin) < 0 {
				// the projection of the table that all clusters share
				s.twin = inputProjection + "0"
			}
		}
		if number, ok := cutAffixes(t.Name, outputTable, weightSuffix); ok {
			s.twin = inputTable + number + weightSuffix
		}
		slots[i] = s
	}
	return slots
}

// ofTable reports whether the slot is a table of the softmax.
func (s slot) ofTable() bool {
	_, ok := cutAffixes(s.name, outputTable, weightSuffix)
	return ok
}

// cutAffixes returns the text between prefix and suffix of a name.
func cutAffixes(name, prefix, suffix string) (between string, ok bool) {
	if name, ok = strings.CutPrefix(name, prefix); !ok {
		return "", false
	}
	return strings.CutSuffix(name, suffix)
}

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

// Prefixes of the names of tensors. The function rename removes parallelPrefix and huggingPrefix,
// which say nothing about the tensor.
const (
	// prefix of all names in a model that was trained on several devices
	parallelPrefix = "module."
	// prefix of all names in Hugging Face's layout, except the softmax's
	huggingPrefix = "transformer."
	softmaxPrefix = "crit."
)

// rename returns the tensors by name. The names are those in the reference implementation's state
// dict.
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

// checkName refuses long and unprintable names, which would be unreadable in errors.
func checkName(name string) error {
	if len(name) > maxNameBytes || strconv.Quote(name) != `"`+name+`"` {
		return malformed("name of a tensor", quote(name),
			"at most "+strconv.Itoa(maxNameBytes)+" bytes of printable text")
	}
	return nil
}

// shareBiases keeps one copy of the attention biases if all layers have equal ones. Hugging Face's
// layout repeats shared biases in every layer.
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

// dropFrequencies removes the tensor with the frequencies of the position encoding, because
// frequencies are not weights. Frequencies that differ from the paper's are an error.
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
		// the tolerance covers bfloat16, which is precise to 1/256
		if math.Abs(float64(v)-want) > 0.01*want {
			return unsupported("tensor "+quote(t.Name)+", element "+strconv.Itoa(i),
				strconv.FormatFloat(float64(v), 'g', -1, 32), strconv.FormatFloat(want, 'g', 7, 64))
		}
	}
	return nil
}

func (t Tensor) floats() ([]float32, error) {
	data, err := t.loadFloats()
	if err != nil {
		return nil, err
	}
	w := weights.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Data: data}
	return w.Float32s()
}

func (t Tensor) loadFloats() ([]byte, error) {
	switch t.DType {
	case weights.F64, weights.F32, weights.F16, weights.BF16:
		return t.Load()
	}
	return nil, malformed("tensor "+quote(t.Name), "elements of another type",
		"floating-point numbers")
}

// Prefixes in the names of the input's and the softmax's tables and projections. A number follows
// the prefix; a table's name ends with weightSuffix. A state dict contains tied weights twice,
// under an input name and a softmax name.
const (
	inputTable       = "word_emb.emb_layers."
	inputProjection  = "word_emb.emb_projs."
	outputTable      = "crit.out_layers."
	outputProjection = "crit.out_projs."
	weightSuffix     = ".weight"
)

// attentionBiases names the attention biases that all layers share. For biases of a single layer,
// layerBias returns the name.
var attentionBiases = []string{"r_w_bias", "r_r_bias"}

func layerBias(layer int, name string) string {
	return fmt.Sprintf("layers.%d.dec_attn.%s", layer, name)
}

type slot struct {
	name  string
	shape []int
	// twin names the input's tensor to which this softmax tensor may be tied; "" for all other
	// tensors.
	twin string
}

// slotsOf lists the tensors of the reference implementation's state dict for a configuration, in
// the order of txl.Layout. The list contains all tables and projections of the softmax, even those
// tied to the input's.
func slotsOf(c txl.Config) []slot {
	c.TieProjs, c.UntieSoftmax = nil, true
	layout := txl.NewLayout(c)
	slots := make([]slot, len(layout.Tensors))
	for i, t := range layout.Tensors {
		s := slot{name: t.Name, shape: t.Shape}
		if number, ok := strings.CutPrefix(t.Name, outputProjection); ok {
			if s.twin = inputProjection + number; layout.Index(s.twin) < 0 {
				// the input has one projection, which all clusters share
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

func (s slot) ofTable() bool {
	_, ok := cutAffixes(s.name, outputTable, weightSuffix)
	return ok
}

func cutAffixes(name, prefix, suffix string) (between string, ok bool) {
	if name, ok = strings.CutPrefix(name, prefix); !ok {
		return "", false
	}
	return strings.CutSuffix(name, suffix)
}

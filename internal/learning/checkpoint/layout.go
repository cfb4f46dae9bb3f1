package checkpoint

import (
	"fmt"
	"strings"

	"github.com/lmserve/lmserve/txl"
)

// Names of the tensors that a state dict has twice where weights are tied: the softmax's, and those
// of the input of which they are copies. A number follows, and behind the number of a table
// weightSuffix.
const (
	inputTable       = "word_emb.emb_layers."
	inputProjection  = "word_emb.emb_projs."
	outputTable      = "crit.out_layers."
	outputProjection = "crit.out_projs."
	weightSuffix     = ".weight"
)

// attentionBiases are the biases that layers share, or have each, as layerBias names them.
var attentionBiases = []string{"r_w_bias", "r_r_bias"}

func layerBias(layer int, name string) string {
	return fmt.Sprintf("layers.%d.dec_attn.%s", layer, name)
}

// slot is a tensor of the reference implementation's state dict.
type slot struct {
	name  string
	shape []int
	// twin names the tensor of which this one is a copy in a model whose weights are tied; "": none.
	twin string
}

// slotsOf lists the tensors that the reference implementation's state dict has for a configuration,
// in the order of txl.Layout. It has those of a model in which nothing is tied: the softmax's tables
// and all of its projections, also those that are the input's.
func slotsOf(c txl.Config) []slot {
	c.TieProjs, c.UntieSoftmax = nil, true
	layout := txl.NewLayout(c)
	slots := make([]slot, len(layout.Tensors))
	for i, t := range layout.Tensors {
		s := slot{name: t.Name, shape: t.Shape}
		if number, ok := strings.CutPrefix(t.Name, outputProjection); ok {
			if s.twin = inputProjection + number; layout.Index(s.twin) < 0 {
				s.twin = inputProjection + "0" // of the table that all clusters share
			}
		}
		if number, ok := cutAffixes(t.Name, outputTable, weightSuffix); ok {
			s.twin = inputTable + number + weightSuffix
		}
		slots[i] = s
	}
	return slots
}

// ofTable tells whether the slot is that of a table of the softmax.
func (s slot) ofTable() bool {
	_, ok := cutAffixes(s.name, outputTable, weightSuffix)
	return ok
}

// cutAffixes gives what stands between two parts of a name.
func cutAffixes(name, prefix, suffix string) (between string, ok bool) {
	if name, ok = strings.CutPrefix(name, prefix); !ok {
		return "", false
	}
	return strings.CutSuffix(name, suffix)
}

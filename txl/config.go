package txl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// LayerNormEps is added to the variance in every layer normalization.
const LayerNormEps = 1e-5

// Config describes a Transformer-XL. Fields that the reference implementation also has use its
// names in JSON.
type Config struct {
	NLayer int `json:"n_layer"`
	DModel int `json:"d_model"`
	NHead  int `json:"n_head"`
	DHead  int `json:"d_head"`
	DInner int `json:"d_inner"`
	Vocab  int `json:"vocab"`
	// SegLen is the usual length of a segment, in tokens. Segments can have other lengths; see
	// NewSegment.
	SegLen int `json:"seg_len"`
	// MemLen is the number of past hidden states that each layer attends to. 0 means no memory.
	MemLen int `json:"mem_len"`
	// ClampLen, if positive, is the largest distance that the position encoding distinguishes.
	ClampLen int `json:"clamp_len,omitempty"`
	// SameLength limits every query to its MemLen most recent keys.
	SameLength bool `json:"same_length,omitempty"`
	// PreLNorm puts layer normalization before attention and feed-forward, instead of after them.
	PreLNorm bool `json:"pre_lnorm,omitempty"`
	// UntieR gives every layer separate attention biases. Otherwise all layers share one pair of
	// biases.
	UntieR bool `json:"untie_r,omitempty"`
	// UntieSoftmax gives the softmax weights separate from the embedding tables. Fast weights of
	// the softmax then do not change the input, so the backward pass can stop above the layers.
	UntieSoftmax bool `json:"untie_softmax,omitempty"`
	// Activation is the activation function of the feed-forward layer: relu (also ""), gelu, swiglu
	// or geglu. With swiglu and geglu, the first linear layer has twice as many outputs: first the
	// gate, then the value.
	Activation string `json:"activation,omitempty"`
	// DEmbed is the width of the embeddings of the first cluster; 0 means DModel.
	DEmbed int `json:"d_embed,omitempty"`
	// Cutoffs divide the vocabulary into clusters for adaptive input and adaptive softmax. A
	// cluster begins at token 0 and at each cutoff; the cutoffs ascend. Without cutoffs there is
	// one cluster.
	Cutoffs []int `json:"cutoffs,omitempty"`
	// DivVal, if above 1, gives cluster i a separate embedding table of width DEmbed/DivVal^i. Each
	// cluster then also has projections between this width and DModel. Otherwise all clusters share
	// one table. The shared table has projections only if DEmbed differs from DModel.
	DivVal int `json:"div_val,omitempty"`
	// TieProjs tells for each cluster whether the softmax uses the input's projection matrix. A
	// missing entry means false.
	TieProjs []bool `json:"tie_projs,omitempty"`
	// ClusterTables gives every cluster a separate table and projections even if DivVal is at most
	// 1. The reference implementation has no equivalent.
	ClusterTables bool `json:"cluster_tables,omitempty"`
}

// Lengths changes how far back the layers attend. The lengths of a trained model may change,
// because no weight depends on them. The fields have the meaning of the Config fields with these
// names. A nil field leaves the Config unchanged.
type Lengths struct {
	MemLen, ClampLen *int
	SameLength       *bool
}

// WithLengths returns a copy of c in which the non-nil fields of l replace the lengths of c.
func (c Config) WithLengths(l Lengths) Config {
	if l.MemLen != nil {
		c.MemLen = *l.MemLen
	}
	if l.ClampLen != nil {
		c.ClampLen = *l.ClampLen
	}
	if l.SameLength != nil {
		c.SameLength = *l.SameLength
	}
	return c
}

// WithVocab returns the configuration for a vocabulary of another size. It drops clusters that
// would begin beyond the new vocabulary.
func (c Config) WithVocab(vocab int) Config {
	c.Vocab = vocab
	for i, cutoff := range c.Cutoffs {
		if cutoff >= vocab {
			c.Cutoffs = slices.Clone(c.Cutoffs[:i])
			c.TieProjs = slices.Clone(c.TieProjs[:min(i+1, len(c.TieProjs))])
			break
		}
	}
	return c
}

// These are the activation functions of the feed-forward layer.
const (
	ReLU   = "relu"
	GELU   = "gelu"
	SwiGLU = "swiglu"
	GeGLU  = "geglu"
)

var named = map[string]Config{
	// These are two configurations of the Transformer-XL paper.
	"enwik8-12l": {NLayer: 12, DModel: 512, NHead: 8, DHead: 64, DInner: 2048, Vocab: 256,
		SegLen: 512, MemLen: 512},
	"wt103-16l": {NLayer: 16, DModel: 410, NHead: 10, DHead: 41, DInner: 2100, Vocab: 267735,
		SegLen: 150, MemLen: 150,
		Cutoffs: []int{20000, 40000, 200000}},
	// default and swift are the configurations of the two embedded models; swift is for fast
	// streams. small lies between them, and tiny is for experiments.
	"default": {NLayer: 6, DModel: 256, NHead: 4, DHead: 64, DInner: 768, Vocab: 256, SegLen: 256,
		MemLen: 512, PreLNorm: true},
	"swift": {NLayer: 2, DModel: 128, NHead: 2, DHead: 64, DInner: 768, Vocab: 256, SegLen: 128,
		MemLen: 128, PreLNorm: true},
	"small": {NLayer: 4, DModel: 160, NHead: 4, DHead: 32, DInner: 640, Vocab: 256, SegLen: 128,
		MemLen: 128},
	"tiny": {NLayer: 2, DModel: 64, NHead: 2, DHead: 32, DInner: 256, Vocab: 256, SegLen: 64,
		MemLen: 64},
}

// Named returns the configuration with the given name.
func Named(name string) (Config, error) {
	c, ok := named[name]
	if !ok {
		return Config{}, fmt.Errorf("txl: configuration %q is not known, expected one of %s", name,
			strings.Join(Names(), ", "))
	}
	c.Cutoffs = slices.Clone(c.Cutoffs)
	return c, nil
}

// Names lists the named configurations in alphabetical order.
func Names() []string {
	names := make([]string, 0, len(named))
	for n := range named {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Validate returns an error for the first field that is out of range.
func (c Config) Validate() error {
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"n_layer", c.NLayer, 1 << 10}, {"d_model", c.DModel, 1 << 16},
		{"n_head", c.NHead, 1 << 10},
		{"d_head", c.DHead, 1 << 12}, {"d_inner", c.DInner, 1 << 18}, {"vocab", c.Vocab, 1 << 24},
		{"seg_len", c.SegLen, 1 << 16},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("txl: %s is %d, expected 1 to %d", f.name, f.value, f.max)
		}
	}
	switch {
	case c.DModel%2 != 0:
		return fmt.Errorf("txl: d_model is %d, expected an even number (the position encoding is "+
			"half sines, half cosines)", c.DModel)
	case c.MemLen < 0 || c.MemLen > 1<<16:
		return fmt.Errorf("txl: mem_len is %d, expected 0 to %d", c.MemLen, 1<<16)
	case c.ClampLen < 0:
		return fmt.Errorf("txl: clamp_len is %d, expected 0 or more", c.ClampLen)
	case c.SameLength && c.MemLen == 0:
		return errors.New(
			"txl: same_length needs mem_len > 0, because each query attends to mem_len keys")
	case !slices.Contains([]string{"", ReLU, GELU, SwiGLU, GeGLU}, c.Activation):
		return fmt.Errorf("txl: activation is %q, expected relu, gelu, swiglu or geglu",
			c.Activation)
	}
	return c.validateClusters()
}

func (c Config) validateClusters() error {
	switch {
	case c.DEmbed < 0 || c.DEmbed > 1<<16:
		return fmt.Errorf("txl: d_embed is %d, expected 1 to %d, or 0 for d_model", c.DEmbed, 1<<16)
	case c.DivVal < 0 || c.DivVal > 1<<16:
		return fmt.Errorf("txl: div_val is %d, expected 1 to %d, or 0 for 1", c.DivVal, 1<<16)
	case len(c.Cutoffs) > maxCutoffs:
		return fmt.Errorf("txl: found %d cutoffs, expected at most %d", len(c.Cutoffs), maxCutoffs)
	case len(c.TieProjs) > len(c.Cutoffs)+1:
		return fmt.Errorf("txl: tie_projs has %d entries, expected at most %d, the number of "+
			"clusters",
			len(c.TieProjs), len(c.Cutoffs)+1)
	}
	least := 1
	for i, cutoff := range c.Cutoffs {
		if cutoff < least || cutoff >= c.Vocab {
			return fmt.Errorf("txl: cutoffs[%d] is %d, expected %d to %d (ascending, below vocab)",
				i, cutoff, least, c.Vocab-1)
		}
		least = cutoff + 1
	}
	if c.embedWidth(len(c.Cutoffs)) == 0 {
		return fmt.Errorf("txl: div_val is %d, which is too large: the embeddings of cluster %d "+
			"would have no elements",
			c.DivVal, len(c.Cutoffs))
	}
	return nil
}

const maxCutoffs = 64

func (c Config) embedWidth(i int) int {
	width := cmp.Or(c.DEmbed, c.DModel)
	for range i {
		width /= max(c.DivVal, 1)
	}
	return width
}

func (c Config) tablePerCluster() bool { return c.DivVal > 1 || c.ClusterTables }

func (c Config) gated() bool { return c.Activation == SwiGLU || c.Activation == GeGLU }

// dHidden returns the number of outputs of the first feed-forward layer.
func (c Config) dHidden() int {
	if c.gated() {
		return 2 * c.DInner
	}
	return c.DInner
}

// maxKeys returns the maximum number of keys in a segment of at most segLen rows. The number of
// distances has the same maximum.
func (c Config) maxKeys(segLen int) int { return c.MemLen + segLen }

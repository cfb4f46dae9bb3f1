package checkpoint

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/internal/serving/reload"
	"github.com/lmserve/lmserve/txl"
)

// Settings is the part of a configuration that cannot be inferred from the shapes of the tensors. A
// nil field is unknown.
type Settings struct {
	MemLen, SegLen, ClampLen *int
	SameLength, PreLNorm     *bool
	// UntieSoftmax says whether the softmax has tables separate from the embeddings. If
	// UntieSoftmax is nil, the values decide: tables that differ from the embeddings are separate.
	UntieSoftmax *bool
	Cutoffs      []int
}

// over returns the settings of s, and takes settings that s lacks from `others`.
func (s Settings) over(others Settings) Settings {
	s.MemLen = cmp.Or(s.MemLen, others.MemLen)
	s.SegLen = cmp.Or(s.SegLen, others.SegLen)
	s.ClampLen = cmp.Or(s.ClampLen, others.ClampLen)
	s.SameLength = cmp.Or(s.SameLength, others.SameLength)
	s.PreLNorm = cmp.Or(s.PreLNorm, others.PreLNorm)
	s.UntieSoftmax = cmp.Or(s.UntieSoftmax, others.UntieSoftmax)
	if s.Cutoffs == nil {
		s.Cutoffs = others.Cutoffs
	}
	return s
}

func (s Settings) untied() bool { return s.UntieSoftmax != nil && *s.UntieSoftmax }

// Missing lists settings that must be given because they cannot be inferred from the checkpoint.
type Missing struct{ Names []string }

func (m *Missing) Error() string {
	return "checkpoint: the weights alone do not determine the settings " +
		strings.Join(m.Names, ", ")
}

// defaultSegLen is the segment length in tokens if the settings have no segment length and the
// model has no memory.
const defaultSegLen = 128

// configOf returns `want`, or a configuration inferred from the shapes if `want` is nil, with the
// settings added. It does not check whether the tensors fit: `fit` later reports all misfits in one
// error.
func configOf(shapes map[string][]int, s Settings, want *txl.Config) (txl.Config, error) {
	c := configOfShapes(shapes)
	var missing Missing
	if tails := shapes["crit.cluster_bias"]; len(tablesOf(shapes)) == 1 && len(tails) == 1 {
		if c.Cutoffs = s.Cutoffs; s.Cutoffs == nil {
			missing.Names = append(missing.Names, "cutoffs")
		}
	}
	if s.MemLen == nil {
		missing.Names = append(missing.Names, "mem-len")
	}
	if s.PreLNorm == nil {
		missing.Names = append(missing.Names, "pre-lnorm")
	}
	if missing.Names != nil {
		return txl.Config{}, &missing
	}
	if want != nil {
		c = *want
		c.Cutoffs = s.Cutoffs
	}
	c.MemLen, c.PreLNorm = *s.MemLen, *s.PreLNorm
	c.SegLen = *cmp.Or(s.SegLen, &c.MemLen)
	c.SegLen = cmp.Or(c.SegLen, defaultSegLen)
	if s.ClampLen != nil {
		c.ClampLen = max(0, *s.ClampLen) // in checkpoints, 0 and negative numbers mean no clamp
	}
	if s.SameLength != nil {
		c.SameLength = *s.SameLength
	}
	c.UntieSoftmax = s.untied()
	return c, checkConfig(c)
}

// configOfShapes returns the part of a configuration that follows from the shapes. If a tensor is
// missing, the fields that depend on it are 0.
func configOfShapes(shapes map[string][]int) (c txl.Config) {
	c.NLayer = layersOf(shapes)
	bias, shared := shapes["r_w_bias"]
	if own, ok := shapes[layerBias(0, "r_w_bias")]; ok && !shared {
		bias, c.UntieR = own, true
	}
	biases := shapeOr(bias, 2)
	c.NHead, c.DHead = biases[0], biases[1]
	c.DModel = shapeOr(shapes["layers.0.dec_attn.o_net.weight"], 2)[0]
	c.DInner = shapeOr(shapes["layers.0.pos_ff.CoreNet.3.weight"], 2)[1]
	tables := tablesOf(shapes)
	for i, table := range tables {
		if c.Vocab += table[0]; i < len(tables)-1 {
			c.Cutoffs = append(c.Cutoffs, c.Vocab)
		}
	}
	if len(tables) == 0 {
		return c
	}
	width := tables[0][1]
	if c.DivVal = divisorOf(tables); width != c.DModel {
		c.DEmbed = width
	}
	if len(tables) > 1 && c.DivVal == 0 && tables[1][1] == width {
		c.ClusterTables = true
	}
	_, projected := shapes[inputProjection+"0"]
	if len(tables) == 1 && projected && c.DEmbed == 0 && shapes["crit.cluster_bias"] == nil {
		c.DivVal = 2 // any number above 1 means that the table has a projection
	}
	return c
}

// checkConfig checks that the configuration is valid and supported. Its limits also bound the list
// of expected tensors, which is made afterwards.
func checkConfig(c txl.Config) error {
	if err := c.Validate(); err != nil {
		return unsupported("configuration", err.Error(), "a configuration that lmserve supports")
	}
	if c.Activation == txl.SwiGLU || c.Activation == txl.GeGLU {
		return unsupported("activation", c.Activation, "relu or gelu, as in the reference "+
			"implementation")
	}
	return nil
}

// layersOf counts the consecutive layers from 0 that have at least one tensor.
func layersOf(shapes map[string][]int) (n int) {
	layer := regexp.MustCompile(`^layers\.(\d{1,4})\.`)
	seen := map[string]bool{}
	for name := range shapes {
		if m := layer.FindStringSubmatch(name); m != nil {
			seen[m[1]] = true
		}
	}
	for seen[strconv.Itoa(n)] {
		n++
	}
	return n
}

func tablesOf(shapes map[string][]int) (tables [][]int) {
	for i := 0; ; i++ {
		shape := shapes[inputTable+strconv.Itoa(i)+weightSuffix]
		if len(shape) != 2 {
			return tables
		}
		tables = append(tables, shape)
	}
}

// maxDivisor is the largest div_val, and the widest table, that txl.Config.Validate accepts. A
// table without rows may claim any width, so the search for a divisor needs a limit.
const maxDivisor = 1 << 16

// divisorOf returns the div_val by which the widths of successive tables shrink. It returns 0 for a
// single table, or if no div_val fits; in this case the later check of shapes reports the tables.
func divisorOf(tables [][]int) int {
	if len(tables) < 2 {
		return 0
	}
	for div := 2; div <= min(tables[0][1], maxDivisor); div++ {
		fits := true
		width := tables[0][1]
		for _, table := range tables {
			fits = fits && table[1] == width
			width /= div
		}
		if fits {
			return div
		}
	}
	return 0
}

// shapeOr returns the shape if it has the given number of dimensions, else zeros.
func shapeOr(shape []int, dimensions int) []int {
	if len(shape) != dimensions {
		return make([]int, dimensions)
	}
	return shape
}

func settingsOf(a map[string]any) (Settings, error) {
	var s Settings
	for name, to := range map[string]**int{
		"mem_len": &s.MemLen, "tgt_len": &s.SegLen, "clamp_len": &s.ClampLen,
	} {
		if n, ok := a[name].(int); ok {
			*to = &n
		}
	}
	for name, to := range map[string]**bool{"same_length": &s.SameLength,
		"pre_lnorm": &s.PreLNorm} {
		switch v := a[name].(type) {
		case bool:
			*to = &v
		case int:
			*to = new(v != 0)
		}
	}
	if list, ok := a["cutoffs"].([]any); ok {
		cutoffs, ok := ints(list)
		if !ok || len(cutoffs) == 0 {
			return s, malformed("attribute cutoffs", "a list of other values", "integers")
		}
		s.Cutoffs = cutoffs[:len(cutoffs)-1] // the last is the size of the vocabulary
	}
	if kind, ok := a["attn_type"].(int); ok && kind != 0 {
		return s, unsupported("attribute attn_type", strconv.Itoa(kind),
			"0, relative positions as in the paper")
	}
	if n, ok := a["sample_softmax"].(int); ok && n > 0 {
		return s, unsupported("attribute sample_softmax", strconv.Itoa(n),
			"none: the softmax is never sampled")
	}
	if eps, ok := a["eps"].(float64); ok {
		return s, checkEps(eps)
	}
	return s, nil
}

func checkEps(eps float64) error {
	if math.Abs(eps-txl.LayerNormEps) > 1e-9 {
		return unsupported("epsilon of the layer normalization", strconv.FormatFloat(eps, 'g', -1,
			64),
			"1e-05")
	}
	return nil
}

// huggingConfig has those fields of Hugging Face's config.json for Transformer-XL that cannot be
// inferred from the shapes of the tensors.
type huggingConfig struct {
	ModelType  string  `json:"model_type"`
	MemLen     *int    `json:"mem_len"`
	TgtLen     *int    `json:"tgt_len"`
	ClampLen   *int    `json:"clamp_len"`
	SameLength *bool   `json:"same_length"`
	PreLNorm   *bool   `json:"pre_lnorm"`
	AttnType   int     `json:"attn_type"`
	Cutoffs    []int   `json:"cutoffs"`
	Eps        float64 `json:"layer_norm_epsilon"`
	TieWords   *bool   `json:"tie_word_embeddings"`
	TieWeight  *bool   `json:"tie_weight"` // old name of tie_word_embeddings
}

// readHuggingConfig reads a config.json. The result `hugging` is true if the file describes a
// Transformer-XL of Hugging Face's library.
func readHuggingConfig(path string) (s Settings, hugging bool, err error) {
	f, err := reload.Open(path)
	if err != nil {
		return s, false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return s, false, err
	}
	if len(text) > maxConfigBytes {
		most := strconv.Itoa(maxConfigBytes) + " bytes"
		err := tooLarge("file", "more than "+most, "at most "+most)
		return s, false, inFile(err, path)
	}
	var c huggingConfig
	if err := json.Unmarshal(text, &c); err != nil {
		err = malformed("JSON", err.Error(), "a configuration object as Hugging Face "+
			"Transformers writes it")
		return s, false, inFile(err, path)
	}
	s, err = c.settings()
	return s, c.ModelType == huggingModelType, inFile(err, path)
}

func (c huggingConfig) settings() (Settings, error) {
	if c.ModelType != "" && c.ModelType != huggingModelType {
		return Settings{}, unsupported("model_type", quote(c.ModelType),
			strconv.Quote(huggingModelType))
	}
	if c.AttnType != 0 {
		return Settings{}, unsupported("attn_type", strconv.Itoa(c.AttnType),
			"0, relative positions as in the paper")
	}
	if c.Eps != 0 {
		if err := checkEps(c.Eps); err != nil {
			return Settings{}, err
		}
	}
	s := Settings{MemLen: c.MemLen, SegLen: c.TgtLen, ClampLen: c.ClampLen,
		SameLength: c.SameLength,
		PreLNorm:   c.PreLNorm, Cutoffs: c.Cutoffs}
	if tied := cmp.Or(c.TieWords, c.TieWeight); tied != nil {
		s.UntieSoftmax = new(!*tied)
	}
	return s, nil
}

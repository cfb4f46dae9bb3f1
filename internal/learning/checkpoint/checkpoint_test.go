package checkpoint

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// State dicts in both file forms of torch.save give the saved tensors, in the order of the model's
// layout. A tied weight, which the file has twice, becomes one tensor.
func TestStateDictBecomesModelsTensors(t *testing.T) {
	tensors := plain(256)
	for form, file := range map[Form][]byte{
		FormZip:    archiveOf(t, stateDict(tensors, false), arraysOf(tensors)),
		FormLegacy: legacyOf(stateDict(tensors, true), arraysOf(tensors)),
	} {
		c, err := readBytes(file)
		require.NoError(t, err, form)
		require.Equal(t, form, c.Form)
		m, err := c.Convert(Options{Settings: known()})
		require.NoError(t, err, form)
		require.Len(t, m.Tensors, len(tensors)-1)
		want := txl.Config{NLayer: 1, DModel: 4, NHead: 2, DHead: 2, DInner: 6, Vocab: 256,
			SegLen: 8,
			MemLen: 8}
		require.Equal(t, want, m.Config)
		layout := txl.NewLayout(want)
		for i, tensor := range m.Tensors {
			require.Equal(t, layout.Tensors[i].Name, tensor.Name)
			require.Equal(t, layout.Tensors[i].Shape, tensor.Shape)
		}
		for _, s := range tensors[:len(tensors)-1] {
			require.Equal(t, s.of.data, dataOf(t, m, s.name), s.name)
		}
	}
}

func TestPickledModelSaysItsConfiguration(t *testing.T) {
	tensors := plain(12)
	root := treeOf(tensors)
	root.attributes = func(p *pickler) {
		p.text("mem_len").number(5).text("tgt_len").number(3).text("clamp_len").number(-1)
		p.text("same_length").op("\x88").text("attn_type").number(0).text("sample_softmax").number(
			-1)
	}
	root.below["layers"].below["0"].below["dec_attn"].attributes = func(p *pickler) {
		p.text("pre_lnorm").op("\x88")
	}
	root.below["word_emb"].attributes = func(p *pickler) {
		p.text("cutoffs").op("](").number(12).op("e")
	}
	pickle := func(legacy bool) []byte { return newPickler().module(root, legacy).op(".").Bytes() }
	for _, file := range [][]byte{
		archiveOf(t, pickle(false), arraysOf(tensors)), legacyOf(pickle(true), arraysOf(tensors)),
	} {
		c, err := readBytes(file)
		require.NoError(t, err)
		m, err := c.Convert(Options{})
		require.NoError(t, err)
		require.Equal(t, txl.Config{NLayer: 1, DModel: 4, NHead: 2, DHead: 2, DInner: 6, Vocab: 12,
			SegLen: 3, MemLen: 5, SameLength: true, PreLNorm: true}, m.Config)
		for _, s := range tensors[:len(tensors)-1] {
			require.Equal(t, s.of.data, dataOf(t, m, s.name), s.name)
		}
	}
	for attribute, number := range map[string]int{"attn_type": 2, "sample_softmax": 100} {
		root.attributes = func(p *pickler) { p.text(attribute).number(number) }
		_, err := readBytes(archiveOf(t, pickle(false), arraysOf(tensors)))
		require.ErrorIs(t, err, ErrUnsupported)
		require.ErrorContains(t, err, "attribute "+attribute)
	}
}

func TestViewsOfAStorageArePutInOrder(t *testing.T) {
	tensors := plain(256)
	i := slices.IndexFunc(tensors,
		func(s shown) bool { return s.name == "layers.0.pos_ff.CoreNet.3.weight" })
	wide := &array{key: "wide", class: "FloatStorage", size: 4}
	for k := range 40 {
		wide.data = binary.LittleEndian.AppendUint32(wide.data, math.Float32bits(float32(k)))
	}
	tensors[i] = shown{tensors[i].name, wide, 3, []int{4, 6}, []int{1, 4}} // transposed
	tensors[i+1] = shown{tensors[i+1].name, wide, 20, []int{4}, []int{5}}  // every fifth element
	tensors[i+2] = shown{tensors[i+2].name, wide, 36, []int{4}, []int{1}}  // the last four elements
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	m, err := c.Convert(Options{Settings: known()})
	require.NoError(t, err)
	values := func(name string) (out []float32) {
		data := dataOf(t, m, name)
		for ; len(data) > 0; data = data[4:] {
			out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(data)))
		}
		return out
	}
	require.Equal(
		t,
		[]float32{3, 7, 11, 15, 19, 23, 4, 8, 12, 16, 20, 24, 5, 9, 13, 17, 21, 25, 6, 10, 14, 18,
			22,
			26},
		values(tensors[i].name),
	)
	require.Equal(t, []float32{20, 25, 30, 35}, values(tensors[i+1].name))
	require.Equal(t, []float32{36, 37, 38, 39}, values(tensors[i+2].name))
}

// A checkpoint of 16-bit elements keeps its type. If types are mixed, or elements have double
// precision, the converted file has F32.
func TestElementTypes(t *testing.T) {
	narrow := func(tensors []shown, class string, bits func(f float32) []byte) {
		for _, a := range arraysOf(tensors) {
			var data []byte
			for k := 0; k < len(a.data); k += 4 {
				data = append(data,
					bits(math.Float32frombits(binary.LittleEndian.Uint32(a.data[k:])))...)
			}
			a.class, a.data, a.size = class, data, len(bits(0))
		}
	}
	half := func(float32) []byte { return []byte{0, 0x3c} }
	double := func(f float32) []byte {
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(f)))
	}
	for _, is := range []struct {
		class string
		bits  func(float32) []byte
		all   bool
		want  weights.DType
	}{
		{"HalfStorage", half, true, weights.F16}, {"BFloat16Storage", half, true, weights.BF16},
		{"HalfStorage", half, false, weights.F32}, {"DoubleStorage", double, true, weights.F32},
	} {
		tensors := plain(256)
		before := tensors[3].of.data
		if is.all {
			narrow(tensors, is.class, is.bits)
		} else {
			narrow(tensors[4:6], is.class, is.bits)
		}
		c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
		require.NoError(t, err)
		m, err := c.Convert(Options{Settings: known()})
		require.NoError(t, err)
		for _, tensor := range m.Tensors {
			require.Equal(t, is.want, tensor.DType)
		}
		if got := dataOf(t, m, tensors[3].name); is.want == weights.F32 {
			require.Equal(t, before, got)
		} else {
			require.Equal(t, tensors[3].of.data, got)
		}
	}
}

func TestAllTensorsThatDoNotFitAreNamed(t *testing.T) {
	tensors := plain(256)
	tensors[1].name = "r_x_bias"
	tensors[6].name = "layers.0.dec_attn.norm"
	tensors[3].shape = []int{4, 12}
	tensors[8].shape, tensors[8].stride = []int{24}, []int{1}
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	_, err = c.Convert(Options{Settings: known()})
	var m *Mismatch
	require.ErrorAs(t, err, &m)
	require.Equal(t, []string{"r_r_bias [2,2]", "layers.0.dec_attn.layer_norm.bias [4]"}, m.Missing)
	require.Equal(t, []string{"layers.0.dec_attn.norm [4]", "r_x_bias [2,2]"}, m.Extra)
	require.Equal(t, []string{"layers.0.dec_attn.qkv_net.weight [4,12], expected [12,4]",
		"layers.0.pos_ff.CoreNet.0.weight [24], expected [6,4]"}, m.Misshapen)
	require.EqualError(t, err, "checkpoint: the tensors do not fit the configuration: "+
		"2 missing: r_r_bias [2,2], layers.0.dec_attn.layer_norm.bias [4]; "+
		"2 unexpected: layers.0.dec_attn.norm [4], r_x_bias [2,2]; "+
		"2 of a wrong shape: layers.0.dec_attn.qkv_net.weight [4,12], expected [12,4], "+
		"layers.0.pos_ff.CoreNet.0.weight [24], expected [6,4]")
}

// The error names all tensors that do not fit, even if no configuration can be inferred because
// r_w_bias is missing. The same holds if a requested configuration does not fit.
func TestTensorsAreNamedWhereNoConfigurationCanBeRead(t *testing.T) {
	tensors := plain(256)
	tensors[0].name = "r"
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	_, err = c.Convert(Options{Settings: known()})
	require.EqualError(t, err, "checkpoint: the tensors do not fit the configuration: "+
		"1 missing: r_w_bias; 1 unexpected: r [2,2]")

	tensors[0].name = "r_w_bias"
	c, err = readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	config := txl.Config{NLayer: 2, DModel: 4, NHead: 2, DHead: 2, DInner: 6, Vocab: 255, SegLen: 8,
		MemLen: 8}
	_, err = c.Convert(Options{Config: &config})
	var m *Mismatch
	require.ErrorAs(t, err, &m)
	require.Len(t, m.Missing, 11, "the second layer")
	require.Len(t, m.Misshapen, 3, "two uses of the embeddings, and the bias")
}

func TestSettingsThatNothingTellsAreAskedFor(t *testing.T) {
	tensors := plain(256)
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	_, err = c.Convert(Options{})
	var missing *Missing
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"mem-len", "pre-lnorm"}, missing.Names)
}

// If clusters share one table, as with div_val 1, the shapes tell the number of clusters but not
// where each begins. Then the settings must have cutoffs.
func TestClustersOfOneTable(t *testing.T) {
	tensors := plain(12)
	bias := &array{key: "bias", class: "FloatStorage", size: 4, data: make([]byte, 8)}
	tensors = append(tensors, shown{"crit.cluster_bias", bias, 0, []int{2}, []int{1}},
		shown{"crit.cluster_weight", tensors[3].of, 0, []int{2, 4}, []int{4, 1}})
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	_, err = c.Convert(Options{Settings: known()})
	require.EqualError(t, err,
		"checkpoint: the weights alone do not determine the settings cutoffs")
	settings := known()
	for _, cutoffs := range [][]int{{3, 12}, {0, 3}, {5, 5}} {
		settings.Cutoffs = cutoffs
		_, err = c.Convert(Options{Settings: settings})
		require.ErrorIs(t, err, ErrUnsupported)
		require.ErrorContains(t, err, "cutoffs[")
	}
	settings.Cutoffs = []int{3}
	_, err = c.Convert(Options{Settings: settings})
	require.ErrorContains(t, err, "crit.cluster_bias [2], expected [1]")
	settings.Cutoffs = []int{3, 7}
	m, err := c.Convert(Options{Settings: settings})
	require.NoError(t, err)
	require.Equal(t, []int{3, 7}, m.Config.Cutoffs)
	require.Zero(t, m.Config.DivVal)
	require.Empty(t, m.Config.TieProjs)
	require.Len(t, m.Tensors, 17)
}

func TestOtherFrequenciesAreRefused(t *testing.T) {
	tensors := plain(256)
	tensors[0].name = "pos_emb.inv_freq"
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	_, err = c.Convert(Options{Settings: known()})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, `tensor "pos_emb.inv_freq", element 0`)
}

// A folder of Hugging Face's library has config.json, a safetensors file that contains tied weights
// once, and a vocabulary. All three are read.
func TestHuggingFacesFolder(t *testing.T) {
	dir, tensors := t.TempDir(), plain(4)
	f := &weights.File{}
	for _, s := range tensors {
		name := "transformer." + s.name
		switch {
		case strings.HasPrefix(s.name, "crit."):
			name = s.name
		case s.name == "word_emb.emb_layers.0.weight":
			continue // the file has this weight only under its name in the softmax
		case strings.HasPrefix(s.name, "r_"):
			name = "transformer.layers.0.dec_attn." + s.name
		}
		f.Tensors = append(f.Tensors,
			weights.Tensor{Name: name, DType: weights.F32, Shape: s.shape, Data: s.of.data})
	}
	require.NoError(t,
		weights.WriteFile(filepath.Join(dir, "model.safetensors"), f, weights.WriteOptions{}))
	config := `{"model_type":"transfo-xl","mem_len":1600,"clamp_len":1000,` +
		`"same_length":true,"pre_lnorm":false,"attn_type":0,"cutoffs":[]}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	require.NoError(t,
		os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte("<eos> 9\n<unk>\nthe 3\na\nthe\n"),
			0o600))
	c, err := Open(dir)
	require.NoError(t, err)
	defer c.Close()
	m, err := c.Convert(Options{})
	require.NoError(t, err)
	want := txl.Config{NLayer: 1, DModel: 4, NHead: 2, DHead: 2, DInner: 6, Vocab: 4, SegLen: 1600,
		MemLen: 1600, ClampLen: 1000, SameLength: true}
	require.Equal(t, want, m.Config)
	require.Equal(t, tensors[2].of.data, dataOf(t, m, "word_emb.emb_layers.0.weight"))
	words, err := ReadVocabulary(c.Vocabulary)
	require.NoError(t, err)
	require.Equal(t, "<eos>\n<unk>\nthe\na\n", string(words.Symbols()))
}

// A safetensors file stores a projection once if the input and the softmax share it. If the input's
// projection is missing, the softmax's projection is copied. If the softmax has several
// projections, the file does not say which projection to copy, and the conversion fails.
func TestProjectionsOfASharedTable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	convert := func(clusters int, left ...string) (*Converted, error) {
		f, settings := &weights.File{}, known()
		add := func(name string, shape []int, data []byte) {
			if !slices.Contains(left, name) {
				f.Tensors = append(f.Tensors,
					weights.Tensor{Name: name, DType: weights.F32, Shape: shape, Data: data})
			}
		}
		for _, s := range plain(4) {
			if s.name != inputTable+"0"+weightSuffix && s.name != outputTable+"0"+weightSuffix {
				add(s.name, s.shape, s.of.data)
			}
		}
		add(inputTable+"0"+weightSuffix, []int{4, 2}, make([]byte, 32))
		add(inputProjection+"0", []int{4, 2}, bytes.Repeat([]byte{1}, 32))
		add(outputProjection+"0", []int{4, 2}, bytes.Repeat([]byte{byte(clusters)}, 32))
		if clusters == 2 {
			settings.Cutoffs = []int{2}
			add(outputProjection+"1", []int{4, 2}, bytes.Repeat([]byte{1}, 32))
			add("crit.cluster_weight", []int{1, 2}, make([]byte, 8))
			add("crit.cluster_bias", []int{1}, make([]byte, 4))
		}
		require.NoError(t, weights.WriteFile(path, f, weights.WriteOptions{}))
		c, err := Open(path)
		require.NoError(t, err)
		defer c.Close()
		return c.Convert(Options{Settings: settings})
	}
	for _, left := range [][]string{nil, {inputProjection + "0"}, {outputProjection + "0"}} {
		m, err := convert(1, left...)
		require.NoError(t, err)
		require.Equal(t, []bool{true}, m.Config.TieProjs)
	}
	for _, left := range [][]string{nil, {outputProjection + "1"}} {
		m, err := convert(2, left...)
		require.NoError(t, err)
		require.Equal(t, []bool{false, true}, m.Config.TieProjs)
	}
	_, err := convert(2, inputProjection+"0")
	require.ErrorContains(t, err, "1 missing: word_emb.emb_projs.0 [4,2]")
}

// Attention biases (r_w_bias and r_r_bias) that are equal in all layers become one shared pair.
// Different biases stay separate. A checkpoint with a shared pair and different biases in layers is
// refused.
func TestAttentionBiasesOfLayers(t *testing.T) {
	own := func(name string) string { return "layers.0.dec_attn." + name }
	second := func(tensors []shown) []shown {
		for _, s := range tensors {
			if rest, ok := strings.CutPrefix(s.name, "layers.0."); ok {
				s.name = "layers.1." + rest
				tensors = append(tensors, s)
			}
		}
		return tensors
	}
	convert := func(tensors []shown) (*Converted, error) {
		c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
		require.NoError(t, err)
		return c.Convert(Options{Settings: known()})
	}
	tensors := plain(4)
	tensors[0].name, tensors[1].name = own("r_w_bias"), own("r_r_bias")
	tensors = second(tensors)
	m, err := convert(tensors)
	require.NoError(t, err)
	require.False(t, m.Config.UntieR)
	require.Equal(t, tensors[1].of.data, dataOf(t, m, "r_r_bias"))

	i := slices.IndexFunc(tensors, func(s shown) bool {
		return s.name == "layers.1.dec_attn.r_r_bias"
	})
	tensors[i].of = tensors[0].of
	m, err = convert(tensors)
	require.NoError(t, err)
	require.True(t, m.Config.UntieR)
	require.Equal(t, tensors[1].of.data, dataOf(t, m, own("r_r_bias")))
	require.Equal(t, tensors[0].of.data, dataOf(t, m, "layers.1.dec_attn.r_r_bias"))
	layout := txl.NewLayout(m.Config)
	for i, tensor := range m.Tensors {
		require.Equal(t, layout.Tensors[i].Name, tensor.Name)
	}

	tensors = append(tensors, shown{"r_w_bias", tensors[0].of, 0, []int{2, 2}, []int{2, 1}})
	_, err = convert(tensors)
	require.ErrorContains(t, err, "4 unexpected: layers.0.dec_attn.r_r_bias [2,2], ")
}

// vocabularyPickle returns a pickled vocabulary: a Vocab object of the reference implementation, or
// Hugging Face's dictionary.
func vocabularyPickle(head, symbols string, tail string) []byte {
	p := newPickler().op(head).op("}(")
	p.text("counter").global("collections", "Counter").op("}(").text("the").number(3).op("u\x85R")
	p.text("idx2sym").op("](")
	for symbol := range strings.FieldsSeq(symbols) {
		p.text(symbol)
	}
	return p.op("eu" + tail + ".").Bytes()
}

func TestVocabulariesOfAllForms(t *testing.T) {
	object := vocabularyPickle("cutils.vocabulary\nVocab\n)\x81", "<eos> the <unk>", "b")
	dictionary := vocabularyPickle("", "<eos> the <unk>", "")
	for name, data := range map[string][]byte{
		"text":              []byte("<eos> 12\nthe 3\n<unk> 0\nthe 3\n"),
		"text of symbols":   []byte("<eos>\nthe\n<unk>\n"),
		"pickle":            dictionary,
		"pickled object":    object,
		"torch.save":        archiveOf(t, dictionary, nil),
		"torch.save before": legacyOf(dictionary, nil),
	} {
		got, err := readVocabulary(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err, name)
		require.Equal(t, "<eos>\nthe\n<unk>\n", string(got.Symbols()), name)
	}
	for want, data := range map[string][]byte{
		`line 2: found "1 2" after the symbol`: []byte("<eos>\na 1 2\n"),
		"symbol 1: found \"the\"":              vocabularyPickle("", "the the", ""),
		"found no symbol <eos>":                vocabularyPickle("", "32 101 116", ""),
		"a list":                               newPickler().op("].").Bytes(),
	} {
		_, err := readVocabulary(bytes.NewReader(data), int64(len(data)))
		require.ErrorContains(t, err, want)
	}
}

package model

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

func small(t *testing.T) *Model {
	lm, err := txl.NewModel(txl.Config{NLayer: 2, DModel: 8, NHead: 2, DHead: 4, DInner: 12,
		Vocab: 256, SegLen: 8, MemLen: 8})
	require.NoError(t, err)
	lm.Init(1)
	branches, err := Branches(lm.Layout, nil)
	require.NoError(t, err)
	l := &sparsemeta.Learner{Branches: branches, Settings: sparsemeta.TwoBankSettings()}
	l.Init(sparsemeta.InitHe(), 2)
	m, err := New("small", lm, l, 8, json.RawMessage(`{"note":"random weights"}`))
	require.NoError(t, err)
	return m
}

// DefaultID uses constants, so that it need not read the embedded file.
func TestConstantsDescribeDefaultModel(t *testing.T) {
	m, err := Default()
	require.NoError(t, err)
	require.Equal(t, m.ID(), DefaultID())
	require.Equal(t, m.LM.Layout.Size, weights.DefaultWeights)
}

func TestModelSurvivesItsFile(t *testing.T) {
	m := small(t)
	require.Equal(t, 2097152, m.CompanionBytes, "what a file that says nothing of it has meant "+
		"so far")
	m.Mixture, m.CompanionBytes, m.CompanionAlone = 0.25, 1<<19, true
	for _, zstd := range []int{0, 3} {
		path := filepath.Join(t.TempDir(), "m.safetensors")
		require.NoError(t, weights.WriteFile(path, m.File(), weights.WriteOptions{Zstd: zstd}))
		back, err := Load(path)
		require.NoError(t, err)
		require.Equal(t, m.LM.Config, back.LM.Config)
		require.Equal(t, m.LM.W, back.LM.W)
		require.Equal(t, m.Learner, back.Learner)
		require.Equal(t, m.Chunk, back.Chunk)
		require.Equal(t, m.Mixture, back.Mixture)
		require.Equal(t, m.CompanionBytes, back.CompanionBytes)
		require.True(t, back.CompanionAlone)
		require.JSONEq(t, string(m.Card), string(back.Card))
		require.Equal(t, m.ID(), back.ID())
	}
}

func clustered(t *testing.T) *Model {
	lm, err := txl.NewModel(txl.Config{
		NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 12, Vocab: 256, SegLen: 8, MemLen: 8,
		DEmbed: 12, Cutoffs: []int{100, 200}, DivVal: 2, TieProjs: []bool{false, true, false},
	})
	require.NoError(t, err)
	lm.Init(1)
	m, err := New("clustered", lm, nil, 8, nil)
	require.NoError(t, err)
	return m
}

func TestTablesOfTheSoftmaxsOwnInAModelsFile(t *testing.T) {
	m, err := New("untied", clustered(t).LM.UntieSoftmax(), nil, 8, nil)
	require.NoError(t, err)
	require.NoError(t, m.StoreAs(weights.BF16))
	f := m.File()
	require.Contains(t, f.Metadata[keyConfig], `"untie_softmax":true`)
	back, err := FromFile(f)
	require.NoError(t, err)
	require.Equal(t, m.LM, back.LM)
	require.Equal(t, weights.BF16, back.Store)
	i := tensorAt(f, "crit.out_layers.2.weight")
	require.Equal(t, []int{56, 3}, f.Tensors[i].Shape)
	f.Tensors = slices.Delete(f.Tensors, i, i+1)
	_, err = FromFile(f)
	require.ErrorContains(t, err, `tensor "crit.out_layers.2.weight" is missing`)
}

// The tensors have the names and shapes of the reference implementation of Transformer-XL.
func TestClustersInAModelsFile(t *testing.T) {
	m := clustered(t)
	back, err := FromFile(m.File())
	require.NoError(t, err)
	require.Equal(t, m.LM, back.LM)
	require.Contains(t, m.File().Metadata[keyConfig],
		`"d_embed":12,"cutoffs":[100,200],"div_val":2,"tie_projs":[false,true,false]}`)
	shapes := map[string][]int{}
	for _, tensor := range m.File().Tensors {
		if name := tensor.Name; name[:4] == "word" || name[:4] == "crit" {
			shapes[name] = tensor.Shape
		}
	}
	require.Equal(t, map[string][]int{
		"word_emb.emb_layers.0.weight": {100, 12}, "word_emb.emb_projs.0": {8, 12},
		"word_emb.emb_layers.1.weight": {100, 6}, "word_emb.emb_projs.1": {8, 6},
		"word_emb.emb_layers.2.weight": {56, 3}, "word_emb.emb_projs.2": {8, 3},
		"crit.cluster_weight": {2, 12}, "crit.cluster_bias": {2},
		"crit.out_layers.0.bias": {100}, "crit.out_layers.1.bias": {100},
		"crit.out_layers.2.bias": {56},
		"crit.out_projs.0":       {8, 12}, "crit.out_projs.2": {8, 3},
	}, shapes)
	for want, spoil := range map[string]func(*weights.File){
		`"crit.out_projs.2" has shape [3 8], but the configuration needs`: func(f *weights.File) {
			f.Tensors[tensorAt(f, "crit.out_projs.2")].Shape = []int{3, 8}
		},
		`"crit.cluster_bias" is missing, but the configuration needs it with shape`: func(
			f *weights.File) {
			f.Tensors[tensorAt(f, "crit.cluster_bias")].Name = "crit.cluster_biases"
		},
		"lmserve.config: txl: cutoffs[1] is 100, expected 101 to 255": func(f *weights.File) {
			config := f.Metadata[keyConfig]
			f.Metadata[keyConfig] = strings.Replace(config, "[100,200]", "[100,100]", 1)
		},
	} {
		f := m.File()
		spoil(f)
		_, err := FromFile(f)
		require.ErrorContains(t, err, want)
	}
}

// FromFile compares shapes before it allocates memory for the configuration.
func TestFileTakesNoMoreMemoryThanItsTensors(t *testing.T) {
	f := small(t).File()
	f.Metadata[keyConfig] = `{"n_layer":1024,"d_model":65536,"n_head":1024,"d_head":4096,` +
		`"d_inner":262144,"vocab":256,"seg_len":16,"mem_len":16}`
	_, err := FromFile(f)
	require.ErrorContains(t, err, "the configuration needs shape [256 65536]")
}

func TestStoredModelIsTheOneThatRuns(t *testing.T) {
	for _, d := range []weights.DType{weights.F32, weights.F16, weights.BF16} {
		m := small(t)
		before := slices.Clone(m.LM.W)
		require.NoError(t, m.StoreAs(d))
		require.Equal(t, d == weights.F32, slices.Equal(before, m.LM.W))
		require.InEpsilonSlice(t, nonZero(before), nonZero(m.LM.W), 0x1p-8)
		path := filepath.Join(t.TempDir(), "m")
		require.NoError(t, weights.WriteFile(path, m.File(), weights.WriteOptions{}))
		f, err := weights.ReadFile(path)
		require.NoError(t, err)
		for i, tensor := range f.Tensors {
			if i < len(m.LM.Layout.Tensors) {
				require.Equal(t, d, tensor.DType)
			} else {
				require.Equal(t, weights.F32, tensor.DType, "meta-learners")
			}
		}
		back, err := Load(path)
		require.NoError(t, err)
		require.Equal(t, m.LM.W, back.LM.W)
		require.Equal(t, d, back.Store)
		require.Equal(t, m.ID(), back.ID())
		require.Equal(t, f.Hash(), back.Hash())
		require.NoError(t, back.StoreAs(d))
		require.Equal(t, m.LM.W, back.LM.W)
	}
}

func tensorAt(f *weights.File, name string) int {
	return slices.IndexFunc(f.Tensors, func(t weights.Tensor) bool { return t.Name == name })
}

func nonZero(values []float32) (out []float32) {
	for _, v := range values {
		if v != 0 {
			out = append(out, v)
		}
	}
	return out
}

func TestWeightsTooLargeForTheirTypeAreNamed(t *testing.T) {
	m := small(t)
	m.LM.Tensor(1)[3] = 70000
	before := slices.Clone(m.LM.W)
	require.ErrorContains(t, m.StoreAs(weights.F16),
		`tensor "r_w_bias", element 3 is 70000, too large for F16`)
	require.Equal(t, before, m.LM.W)
	require.Equal(t, weights.DType(""), m.Store)
	require.NoError(t, m.StoreAs(weights.BF16))
}

func TestFilesThatDoNotFitAreRefused(t *testing.T) {
	for want, spoil := range map[string]func(*weights.File){
		"no model": func(f *weights.File) { delete(f.Metadata, keyConfig) },
		"d_model": func(f *weights.File) {
			f.Metadata[keyConfig] =
				`{"n_layer":2,"d_model":7,"n_head":1,"d_head":2,"d_inner":2,"vocab":256,` +
					`"seg_len":2}`
		},
		"unknown field": func(f *weights.File) { f.Metadata[keyConfig] = `{"layers":2}` },
		keyTokenizer:    func(f *weights.File) { f.Metadata[keyTokenizer] = `{"kind":"words"}` },
		"gammas": func(f *weights.File) {
			f.Metadata[keyAdapt] =
				`{"chunk":8,"gammas":[2],"branches":["r_w_bias"]}`
		},
		`branch "nothing"`: func(f *weights.File) {
			f.Metadata[keyAdapt] =
				`{"chunk":8,"gammas":[0.5],"beta1":1,"beta2":1,"p":0.5,"out":1,` +
					`"branches":["nothing"]}`
		},
		"mixture is 1.5, expected 0 to 1": func(f *weights.File) {
			f.Metadata[keyAdapt] = strings.Replace(f.Metadata[keyAdapt], "}", `,"mixture":1.5}`, 1)
		},
		"mixture is 0.5, expected 0 for a model of words and for a model without branches": func(
			f *weights.File) {
			f.Metadata[keyAdapt] = `{"chunk":8,"mixture":0.5}`
			f.Tensors = f.Tensors[:len(txl.NewLayout(smallConfig(f)).Tensors)]
		},
		"the table has 1000 bytes": func(f *weights.File) {
			f.Metadata[keyAdapt] = strings.Replace(f.Metadata[keyAdapt], "}",
				`,"companion_bytes":1000}`, 1)
		},
		"chunk is 0": func(f *weights.File) {
			f.Metadata[keyAdapt] = `{"chunk":0}`
			f.Tensors = f.Tensors[:len(txl.NewLayout(smallConfig(f)).Tensors)]
		},
		"is missing": func(f *weights.File) { f.Tensors = f.Tensors[1:] },
		"tensors, but the conf": func(f *weights.File) {
			f.Tensors = append(f.Tensors, weights.F32Tensor("extra", []int{1}, []float32{1}))
		},
		"element 3 is NaN": func(f *weights.File) {
			copy(f.Tensors[0].Data[12:],
				[]byte{0, 0, 0xc0, 0x7f})
		},
		"has shape": func(f *weights.File) { f.Tensors[0].Shape = []int{8, 256} },
	} {
		f := small(t).File()
		spoil(f)
		_, err := FromFile(f)
		require.ErrorContains(t, err, want)
	}
}

func smallConfig(f *weights.File) (c txl.Config) {
	if err := json.Unmarshal([]byte(f.Metadata[keyConfig]), &c); err != nil {
		panic(err)
	}
	return c
}

func TestBranchesByNameAndPattern(t *testing.T) {
	layout := small(t).LM.Layout
	names := func(patterns ...string) (out []string) {
		branches, err := Branches(layout, patterns)
		require.NoError(t, err)
		for _, b := range branches {
			out = append(out, b.Name)
		}
		return out
	}
	require.Len(t, names("paper"), 2*4+1, "qkv, r, o, CoreNet.0 of each layer, and the embedding")
	require.Len(t, names("wide"), 2*7+2)
	require.Equal(t, names("wide"), names())
	top := names("layers.1.*.CoreNet.*", "crit.*.bias")
	require.Len(t, top, 4+1)
	require.Equal(t, top, names("upper"))
	require.Equal(t, []string{"r_w_bias", "layers.0.dec_attn.o_net.weight"},
		names("layers.0.*.o_net.weight", "r_w_bias"))
	_, err := Branches(layout, []string{"paper", "layers.9.*"})
	require.ErrorContains(t, err, "layers.9.*")
}

// Word embeddings have fast weights only if a name pattern matches them.
func TestBranchesOfAWordModel(t *testing.T) {
	config := smallConfig(small(t).File())
	config.Vocab = 5000
	clustered := config
	clustered.Cutoffs, clustered.DivVal = []int{100, 900}, 2
	for _, c := range []struct {
		config  txl.Config
		biases  []string
		softmax []string
	}{
		{config, []string{"crit.out_layers.0.bias"}, []string{"crit.out_layers.0.bias"}},
		{clustered, []string{
			"crit.cluster_weight", "crit.cluster_bias",
			"crit.out_layers.0.bias", "crit.out_layers.1.bias", "crit.out_layers.2.bias",
		}, []string{
			"crit.cluster_weight", "crit.cluster_bias",
			"crit.out_layers.0.bias", "crit.out_projs.0", "crit.out_layers.1.bias",
			"crit.out_projs.1", "crit.out_layers.2.bias", "crit.out_projs.2",
		}},
	} {
		layout := txl.NewLayout(c.config)
		names := func(patterns ...string) (out []string) {
			branches, err := Branches(layout, patterns)
			require.NoError(t, err)
			for _, b := range branches {
				out = append(out, b.Name)
			}
			return out
		}
		require.Len(t, names("paper"), 2*4)
		require.Equal(t, c.biases, names("wide")[2*7:])
		require.Equal(t, c.softmax, names("upper")[4:])
		require.Equal(t, c.softmax, names("softmax"))
		const table = "word_emb.emb_layers.0.weight"
		require.Equal(t, table, names("paper", table)[0])
	}
}

func TestBranchesOfAModelWithTablesOfTheSoftmaxsOwn(t *testing.T) {
	config := smallConfig(small(t).File())
	config.UntieSoftmax = true
	names := func(patterns ...string) (out []string) {
		branches, err := Branches(txl.NewLayout(config), patterns)
		require.NoError(t, err)
		for _, b := range branches {
			out = append(out, b.Name)
		}
		return out
	}
	const in, out, bias = "word_emb.emb_layers.0.weight", "crit.out_layers.0.weight",
		"crit.out_layers.0.bias"
	paper := names("paper")
	require.Len(t, paper, 2*4+2)
	require.Equal(t, []string{in, out}, []string{paper[0], paper[2*4+1]})
	require.Equal(t, []string{out, bias}, names("wide")[1+2*7:])
	require.Equal(t, []string{out, bias}, names("upper")[4:])
	require.Equal(t, []string{out, bias}, names("softmax"))

	config.Vocab = 5000
	require.Len(t, names("paper"), 2*4)
	require.Equal(t, []string{bias}, names("wide")[2*7:])
	require.Equal(t, []string{bias}, names("upper")[4:])
	require.Equal(t, []string{out, bias}, names("softmax"))

	config.Cutoffs, config.DivVal = []int{100, 900}, 2
	require.Equal(t, []string{
		"crit.cluster_weight", "crit.cluster_bias", bias, "crit.out_projs.0",
		"crit.out_layers.1.bias", "crit.out_projs.1", "crit.out_layers.2.bias", "crit.out_projs.2",
	}, names("upper")[4:])
	require.Equal(t, []string{
		"crit.cluster_weight", "crit.cluster_bias", out, bias, "crit.out_projs.0",
		"crit.out_layers.1.weight", "crit.out_layers.1.bias", "crit.out_projs.1",
		"crit.out_layers.2.weight", "crit.out_layers.2.bias", "crit.out_projs.2",
	}, names("softmax"))
}

func TestViewsCutTheArenaByBranch(t *testing.T) {
	m := small(t)
	arena := make([]float32, m.ArenaSize())
	for i, v := range m.Views(arena) {
		if v != nil {
			require.Len(t, v, m.LM.Layout.Tensors[i].Size)
			for j := range v {
				v[j]++
			}
		}
	}
	for _, v := range arena {
		require.Equal(t, float32(1), v, "every element belongs to exactly one branch")
	}
}

// Names appear in terminals and logs, where a newline or an escape sequence could forge output.
func TestNamesOfModelsCanBePrinted(t *testing.T) {
	m := small(t)
	for _, name := range []string{"", "small", "größer 2.1", strings.Repeat("é", NameCharsMax)} {
		_, err := New(name, m.LM, nil, 8, nil)
		require.NoError(t, err, name)
	}
	for name, found := range map[string]string{
		"a\nlmserve: serving b": `"a\nlmserve`, "\x1b[2Jc": `"\x1b[2Jc" (5 bytes)`,
		"\u009b2J":           `"\u009b2J"`,
		"right\u202eto left": `\u202e`, "\xff": `"\xff"`, "tab\t": `"tab\t"`, "\u2028": `"\u2028"`,
		strings.Repeat("x", NameCharsMax+1): `expected at most 128 printable characters`,
		strings.Repeat("x", 1<<20):          `(1048576 bytes)`,
	} {
		f := m.File()
		f.Metadata["lmserve.name"] = name
		_, err := FromFile(f)
		require.ErrorContains(t, err, found)
		require.ErrorContains(t, err, "lmserve.name")
		require.Less(t, len(err.Error()), 1000)
	}
}

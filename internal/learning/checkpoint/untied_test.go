package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// untied returns the tensors of a conformance model with separate softmax tables. Each key of ties
// is a projection of the softmax, which equals the input's projection in the value.
func untied(t testing.TB, file string, ties map[string]string) (tensors []shown) {
	f, err := weights.ReadFile("../../lab/conformance/testdata/" + file + ".safetensors")
	require.NoError(t, err)
	arrays := map[string]*array{}
	add := func(name string, shape []int, of *array) {
		stride := slices.Clone(shape)
		for i, n := len(shape)-1, 1; i >= 0; i-- {
			stride[i], n = n, n*shape[i]
		}
		tensors = append(tensors, shown{name, of, 0, shape, stride})
	}
	for _, tensor := range f.Tensors {
		if strings.HasPrefix(tensor.Name, "seg") || strings.HasPrefix(tensor.Name, "grad.") {
			continue
		}
		a := &array{key: strconv.Itoa(len(tensors)), class: "FloatStorage", size: 4,
			data: tensor.Data}
		arrays[tensor.Name] = a
		add(tensor.Name, tensor.Shape, a)
	}
	for name, of := range ties {
		i := slices.IndexFunc(tensors, func(s shown) bool { return s.name == of })
		add(name, tensors[i].shape, arrays[of])
	}
	return tensors
}

// A softmax table that differs from the embeddings is kept, bit for bit, in every file format.
func TestSoftmaxWithSeparateTables(t *testing.T) {
	six, eight, on, off := 6, 8, true, false
	for file, is := range map[string]struct {
		ties     map[string]string
		settings Settings
		config   txl.Config
	}{
		"adasoftmax_own_tables": {
			map[string]string{outputProjection + "1": inputProjection + "1"},
			Settings{MemLen: &six, PreLNorm: &on},
			txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 4, DInner: 10, Vocab: 19, SegLen: 6,
				MemLen: 6, PreLNorm: true, Cutoffs: []int{5, 11}, DivVal: 2,
				TieProjs: []bool{false, true, false}, UntieSoftmax: true},
		},
		"adasoftmax_own_table": {
			map[string]string{
				outputProjection + "0": inputProjection + "0", outputProjection +
					"2": inputProjection + "0",
			},
			Settings{MemLen: &eight, PreLNorm: &off, Cutoffs: []int{4, 9}},
			txl.Config{NLayer: 1, DModel: 8, NHead: 2, DHead: 3, DInner: 9, Vocab: 15, SegLen: 8,
				MemLen: 8, DEmbed: 6, Cutoffs: []int{4, 9}, TieProjs: []bool{true, false, true},
				UntieSoftmax: true},
		},
	} {
		tensors := untied(t, file, is.ties)
		for _, data := range [][]byte{
			archiveOf(t, stateDict(tensors, false), arraysOf(tensors)),
			legacyOf(stateDict(tensors, true), arraysOf(tensors)),
		} {
			c, err := readBytes(data)
			require.NoError(t, err)
			requireUntied(t, c, is.settings, is.config, tensors)
		}
		path := filepath.Join(t.TempDir(), "model.safetensors")
		writeSafetensors(t, path, tensors[:len(tensors)-len(is.ties)], "")
		c, err := Open(path)
		require.NoError(t, err)
		defer c.Close()
		requireUntied(t, c, is.settings, is.config, tensors)
	}
}

func requireUntied(t *testing.T, c *Checkpoint, s Settings, want txl.Config, tensors []shown) {
	t.Helper()
	m, err := c.Convert(Options{Settings: s})
	require.NoError(t, err)
	require.Equal(t, want, m.Config)
	layout := txl.NewLayout(want)
	require.Len(t, m.Tensors, len(layout.Tensors))
	for i, tensor := range layout.Tensors {
		require.Equal(t, tensor.Name, m.Tensors[i].Name)
		of := slices.IndexFunc(tensors, func(s shown) bool { return s.name == tensor.Name })
		require.Equal(t, tensors[of].of.data, dataOf(t, m, tensor.Name), tensor.Name)
	}
}

func writeSafetensors(t *testing.T, path string, tensors []shown, prefix string) {
	f := &weights.File{}
	for _, s := range tensors {
		name := s.name
		if !strings.HasPrefix(name, "crit.") {
			name = prefix + name
		}
		f.Tensors = append(f.Tensors,
			weights.Tensor{Name: name, DType: weights.F32, Shape: s.shape, Data: s.of.data})
	}
	require.NoError(t, weights.WriteFile(path, f, weights.WriteOptions{}))
}

// Hugging Face's config.json says whether tables are tied. Old versions have the field tie_weight,
// and new versions tie_word_embeddings.
func TestHuggingFacesTies(t *testing.T) {
	const own, equal, once = "own values", "equal values", "one table"
	for _, is := range []struct {
		config, tables string
		untied         bool
		wrong          string
	}{
		{``, own, true, ""},
		{``, equal, false, ""},
		{``, once, false, ""},
		{`,"tie_word_embeddings":false`, own, true, ""},
		{`,"tie_weight":false`, own, true, ""},
		{`,"tie_word_embeddings":false,"tie_weight":true`, own, true, ""},
		{`,"tie_word_embeddings":false`, equal, true, ""},
		{`,"tie_word_embeddings":false`, once, false, "1 missing: word_emb.emb_layers.0.weight"},
		{`,"tie_word_embeddings":true`, equal, false, ""},
		{`,"tie_weight":true`, once, false, ""},
		{`,"tie_word_embeddings":true`, own, false,
			`tensors crit.out_layers.0.weight: found other values than the embeddings'`},
	} {
		tensors, dir := plain(4), t.TempDir()
		last := &tensors[len(tensors)-1]
		switch is.tables {
		case own:
			table := *last.of
			table.key, table.data = "own", append([]byte{1}, table.data[1:]...)
			last.of = &table
		case once:
			tensors = slices.DeleteFunc(tensors, func(s shown) bool {
				return s.name == inputTable+"0"+weightSuffix
			})
		}
		writeSafetensors(t, filepath.Join(dir, "model.safetensors"), tensors, huggingPrefix)
		config := `{"model_type":"transfo-xl","mem_len":8,"pre_lnorm":false,"cutoffs":[]` +
			is.config + `}`
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
		c, err := Open(dir)
		require.NoError(t, err)
		defer c.Close()
		m, err := c.Convert(Options{})
		if is.wrong != "" {
			require.ErrorContains(t, err, is.wrong)
			continue
		}
		require.NoError(t, err, "%s, %s", is.config, is.tables)
		require.Equal(t, is.untied, m.Config.UntieSoftmax, "%s, %s", is.config, is.tables)
		require.Len(t, m.Tensors, len(txl.NewLayout(m.Config).Tensors))
	}
}

func TestConfigurationSaysWhatIsUntied(t *testing.T) {
	config := txl.Config{NLayer: 1, DModel: 4, NHead: 2, DHead: 2, DInner: 6, Vocab: 4, SegLen: 8,
		MemLen: 8, Cutoffs: []int{}}
	tensors := plain(4)
	convert := func() (*Converted, error) {
		c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
		require.NoError(t, err)
		return c.Convert(Options{Config: &config})
	}
	config.UntieSoftmax = true
	m, err := convert()
	require.NoError(t, err)
	require.Equal(t, config, m.Config)
	require.Equal(t, dataOf(t, m, inputTable+"0"+weightSuffix),
		dataOf(t, m, outputTable+"0"+weightSuffix))

	config.UntieSoftmax = false
	m, err = convert()
	require.NoError(t, err)
	require.Equal(t, config, m.Config)
	table := *tensors[len(tensors)-1].of
	table.key, table.data = "own", append([]byte{1}, table.data[1:]...)
	tensors[len(tensors)-1].of = &table
	_, err = convert()
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, "expected a softmax with the embeddings as weights")
}

package checkpoint

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/weights"
)

// fixtures is a folder outside the repository. It has one model in all published forms of
// checkpoints, and as a file of reference values. The environment variable CHECKPOINT_FIXTURES
// names another folder.
var fixtures = cmp.Or(os.Getenv("CHECKPOINT_FIXTURES"), "../../../../shared/fixtures")

func TestAllFormsOfOneModelGiveTheSameWeights(t *testing.T) {
	reference := filepath.Join(fixtures, "adasoftmax_small.safetensors")
	if _, err := os.Stat(reference); err != nil {
		t.Skip("needs the fixtures beside the repository: ", err)
	}
	want, err := weights.ReadFile(reference)
	require.NoError(t, err)
	var names []string
	for _, tensor := range want.Tensors {
		if !strings.HasPrefix(tensor.Name, "seg") && !strings.HasPrefix(tensor.Name, "grad.") &&
			tensor.Name != "pos_emb.inv_freq" {
			names = append(names, tensor.Name)
		}
	}
	memory, off := 12, false
	for form, settings := range map[string]Settings{
		"model.pt": {}, "hf": {}, "hf/pytorch_model.bin": {},
		"state_dict.pt":        {MemLen: &memory, PreLNorm: &off},
		"state_dict_legacy.pt": {MemLen: &memory, PreLNorm: &off},
	} {
		t.Run(form, func(t *testing.T) {
			c, err := Open(filepath.Join(fixtures, "checkpoints", form))
			require.NoError(t, err)
			defer c.Close()
			// The fixtures have the clusters' columns in the order of the reference implementation,
			// even in the file with Hugging Face's names.
			m, err := c.Convert(Options{Settings: settings, Order: Descending})
			require.NoError(t, err)
			require.Equal(t, []int{12, 28}, m.Config.Cutoffs)
			require.Equal(t, []bool{false, true, true}, m.Config.TieProjs)
			require.Equal(t, []int{2, 16, 2, 8, 32, 60, 12, 2, 0},
				[]int{m.Config.NLayer, m.Config.DModel, m.Config.NHead, m.Config.DHead,
					m.Config.DInner,
					m.Config.Vocab, m.Config.MemLen, m.Config.DivVal, m.Config.DEmbed})
			var got []string
			for _, tensor := range m.Tensors {
				got = append(got, tensor.Name)
				w, ok := want.Tensor(tensor.Name)
				require.True(t, ok, tensor.Name)
				data, err := io.ReadAll(tensor.Reader())
				require.NoError(t, err)
				require.Equal(t, w.Shape, tensor.Shape)
				require.Equal(t, w.Data, data, tensor.Name)
			}
			require.ElementsMatch(t, names, got)
		})
	}
}

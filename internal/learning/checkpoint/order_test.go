package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLayoutsTellTheClustersOrder(t *testing.T) {
	const config = `{"model_type":"transfo-xl"}`
	for _, is := range []struct {
		name, prefix, config string
		softmax              bool // the names of the softmax's tensors have the prefix, too
		asked, want          Order
		why                  string
	}{
		{"reference", "", "", false, "", Descending, "not those of Hugging Face"},
		{"reference of several devices", "module.", "", true, "", Descending, "not those of"},
		{"reference in a model", huggingPrefix, "", true, "", Descending, "not those of"},
		{"config without a type", "", "{}", false, "", Descending, "not those of"},
		{"config", "", config, false, "", Ascending, "config.json has"},
		{"names", huggingPrefix, "", false, "", Ascending, `"transformer.`},
		{"config and names", huggingPrefix, config, false, "", Ascending, "config.json has"},
		{"asked for in Hugging Face's", huggingPrefix, config, false, Descending, Descending, ""},
		{"asked for in the reference's", "", "", false, Ascending, Ascending, ""},
	} {
		t.Run(is.name, func(t *testing.T) {
			tensors := untied(t, "adasoftmax_own_tables", nil)
			columns := map[string][]byte{}
			for i, s := range tensors {
				columns[s.name] = s.of.data
				if is.softmax || !strings.HasPrefix(s.name, softmaxPrefix) {
					tensors[i].name = is.prefix + s.name
				}
			}
			dir := t.TempDir()
			writeSafetensors(t, filepath.Join(dir, "model.safetensors"), tensors, "")
			if is.config != "" {
				config := filepath.Join(dir, huggingConfigFile)
				require.NoError(t, os.WriteFile(config, []byte(is.config), 0o600))
			}
			c, err := Open(dir)
			require.NoError(t, err)
			defer c.Close()
			m, err := c.Convert(Options{Settings: known(), Order: is.asked})
			require.NoError(t, err)
			require.Equal(t, is.want, m.Order)
			if is.why == "" {
				require.Empty(t, m.Why)
			} else {
				require.Contains(t, m.Why, is.why)
			}
			for _, name := range clusterTensors {
				want := columns[name]
				if half := len(want) / 2; is.want == Ascending {
					want = append(append([]byte{}, want[half:]...), want[:half]...)
				}
				require.Equal(t, want, dataOf(t, m, name), name)
			}
		})
	}
}

func TestModelsWithoutClustersHaveNoOrder(t *testing.T) {
	tensors := plain(256)
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	m, err := c.Convert(Options{Settings: known(), Order: Ascending})
	require.NoError(t, err)
	require.Empty(t, m.Order)
}

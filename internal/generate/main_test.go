package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// inCopy copies the files with generated parts, and changes the working directory to the copied
// folder api. Tests therefore do not change the repository.
func inCopy(t *testing.T) {
	t.Helper()
	api, dir := filepath.Join("..", "..", "api"), t.TempDir()
	for file := range partsOf(stream.Table, session.SamplingTable) {
		text, err := os.ReadFile(filepath.Join(api, file))
		require.NoError(t, err)
		copied := filepath.Join(dir, "api", file)
		require.NoError(t, os.MkdirAll(filepath.Dir(copied), 0o755))
		require.NoError(t, os.WriteFile(copied, text, 0o644))
	}
	t.Chdir(filepath.Join(dir, "api"))
}

func read(t *testing.T) map[string]string {
	files := map[string]string{}
	for file := range partsOf(stream.Table, session.SamplingTable) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		files[file] = string(text)
	}
	return files
}

func TestFilesMatchTable(t *testing.T) {
	inCopy(t)
	before := read(t)
	require.NoError(t, run(partsOf(stream.Table, session.SamplingTable)))
	require.Equal(t, before, read(t), "expected what make generate writes")
}

// A setting is added in one place, the table. The setting then appears in the API contract, the
// order of fields in Go, the documentation, and the web page.
func TestRowIsEnoughForContractDocumentationAndPage(t *testing.T) {
	inCopy(t)
	row := setting.Row[stream.Settings]{
		Name: "out_factor", Field: func(s *stream.Settings) any { return &s.Adapt.Out },
		Methods: []string{stream.SparseMeta},
		Min:     0, Max: 2, Above: true, Limit: "out_factor_max", Default: "the model's",
		Help: "the factor on what the meta-learners write", Note: "In the paper it is 1.",
	}
	before := read(t)
	require.NoError(t, run(partsOf(append(stream.Table[:len(stream.Table):len(stream.Table)], row),
		session.SamplingTable)))

	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context(), openapi3.DisableExamplesValidation()))
	asked := doc.Components.Schemas["SettingsRequest"].Value.Properties["out_factor"].Value
	require.True(t, asked.Type.Is("number"))
	require.Equal(t, "float", asked.Format)
	require.Equal(t, 0., *asked.Min)
	require.True(t, asked.ExclusiveMin.IsTrue())
	require.Equal(t, 2., *asked.Max)
	require.False(t, asked.ExclusiveMax.IsTrue())
	require.Equal(t, "For `sparse-meta`: the factor on what the meta-learners write. In the paper "+
		"it is 1.", asked.Description)
	inForce := doc.Components.Schemas["Settings"].Value
	require.True(t, inForce.Properties["out_factor"].Value.Type.Is("number"))
	require.Contains(t, inForce.Required, "out_factor")
	require.EqualValues(t, 2, doc.Info.Extensions["x-limits"].(map[string]any)["out_factor_max"])

	after := read(t)
	require.Contains(t, after["overlay.yaml"],
		fmt.Sprintf("      out_factor: { x-order: %d }\n", len(stream.Table)+1))
	require.Contains(t, after[pageSettings], `    name: "out_factor",
    kind: "number",
    help: "the factor on what the meta-learners write",
    methods: ["sparse-meta"],
    min: 0,
    max: 2,
  },
`)
	require.Contains(t, after["../docs/settings.md"],
		"| `out_factor` | `--out-factor` | above 0 to 2 | the model's | For `sparse-meta`: the "+
			"factor on what the meta-learners write. In the paper it is 1. |\n")

	require.NoError(t, run(partsOf(stream.Table, session.SamplingTable)))
	require.Equal(t, before, read(t), "without the row all is as it was")
}

func TestMissingPartIsNamed(t *testing.T) {
	const text = "a\n  # BEGIN GENERATED x, by hand\n  old\n  # END GENERATED x\nb\n"
	got, err := replace(text, "x", "one\n  two\n")
	require.NoError(t, err)
	require.Equal(t, "a\n  # BEGIN GENERATED x, by hand\n  one\n    two\n  # END GENERATED x\nb\n",
		got)
	for _, wrong := range []string{"", "# BEGIN GENERATED x\n", "# END GENERATED x\n# BEGIN " +
		"GENERATED x\n", text + text} {
		_, err := replace(wrong, "x", "")
		require.ErrorContains(t, err, `part "x"`)
	}
}

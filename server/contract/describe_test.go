package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryRequestSchemaCanBeDescribed(t *testing.T) {
	doc, err := Document()
	require.NoError(t, err)
	for name, ref := range doc.Components.Schemas {
		if !strings.HasSuffix(name, "Request") && name != "ScoreText" {
			continue
		}
		for field, p := range ref.Value.Properties {
			require.NotEmpty(t, Describe(p.Value), name+"."+field)
		}
	}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				require.NotEmpty(t, Describe(p.Value.Schema.Value), p.Value.Name)
			}
		}
	}
}

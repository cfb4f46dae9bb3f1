package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

func TestDocumentIsValid(t *testing.T) {
	doc, err := Document()
	require.NoError(t, err)
	// Package server checks the examples. This validator would reject the example of a stream,
	// which is text, because the schema describes one event.
	require.NoError(t, doc.Validate(t.Context(), openapi3.DisableExamplesValidation()))
	require.True(t, strings.HasPrefix(doc.OpenAPI, "3.0."))
}

// editorsBodies are the request schemas that allow unknown fields, because editors send fields that
// the server ignores.
var editorsBodies = []string{
	"FIMRequest", "TGIRequest", "OllamaRequest", "LlamaRequest", "TabbyRequest",
}

// Objects are closed: if they accepted unknown fields, a mistyped name would go unnoticed.
func TestEverySchemaIsDescribedAndClosed(t *testing.T) {
	doc, err := Document()
	require.NoError(t, err)
	for name, ref := range doc.Components.Schemas {
		s := ref.Value
		require.Empty(t, s.Extensions["description"], name)
		for key := range s.Extensions {
			require.True(t, strings.HasPrefix(key, "x-"), "schema %s has the unknown keyword %q",
				name, key)
		}
		require.NotEmpty(t, s.Description, "schema %s", name)
		if s.Type.Is("object") && len(s.Properties) > 0 && !slices.Contains(editorsBodies, name) {
			require.NotNil(t, s.AdditionalProperties.Has, "schema %s does not say what it does "+
				"with unknown fields", name)
			require.False(t, *s.AdditionalProperties.Has, "schema %s takes unknown fields", name)
		}
		for prop, p := range s.Properties {
			// The schema SettingsRequest already describes the fields of Settings.
			described := p.Value.Description != "" || p.Ref != "" || name == "Settings"
			require.True(t, described, "%s.%s has no description", name, prop)
			for key := range p.Value.Extensions {
				require.True(t, strings.HasPrefix(key, "x-"), "%s.%s has the unknown keyword %q: "+
					"a comma in an unquoted description?", name, prop, key)
			}
		}
	}
}

func TestEveryOperationAndParameterIsDescribed(t *testing.T) {
	doc, err := Document()
	require.NoError(t, err)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			require.NotEmpty(t, op.Summary, "%s %s", method, path)
			require.NotEmpty(t, op.Description, "%s %s", method, path)
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				require.NotEmpty(t, p.Value.Description, "%s %s: %s", method, path, p.Value.Name)
			}
		}
	}
}

func TestEveryRequestFieldHasLimits(t *testing.T) {
	doc, err := Document()
	require.NoError(t, err)
	// Only the limit on the whole body bounds these fields.
	unbounded := []string{"ScoreText.text", "ScoreText.base64", "CompletionRequest.prompt",
		"CompletionRequest.prompt_base64"}
	for _, name := range []string{"SessionRequest", "ForkRequest", "SettingsRequest", "ScoreText",
		"CompletionRequest", "StopString"} {
		for prop, ref := range doc.Components.Schemas[name].Value.Properties {
			field := name + "." + prop
			if slices.Contains(unbounded, field) {
				continue
			}
			requireBounded(t, field, ref.Value)
		}
	}
}

func requireBounded(t *testing.T, field string, s *openapi3.Schema) {
	t.Helper()
	switch {
	case len(s.OneOf) > 0:
		for _, one := range s.OneOf {
			requireBounded(t, field, one.Value)
		}
	case s.Type.Is("integer"), s.Type.Is("number"):
		require.NotNil(t, s.Min, field)
		require.NotNil(t, s.Max, field)
	case s.Type.Is("array"):
		require.NotNil(t, s.MaxItems, field)
		requireBounded(t, field, s.Items.Value)
	case s.Type.Is("string"):
		require.True(t, s.MaxLength != nil || len(s.Enum) > 0, field)
	}
}

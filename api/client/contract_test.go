package client_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/server/contract"
)

func TestTypesWrittenByHandAreTheContracts(t *testing.T) {
	doc, err := contract.Document()
	require.NoError(t, err)
	for name, byHand := range map[string]struct {
		value   any
		without []string
	}{
		// client.Error omits the fields that only OpenAI and OTLP clients read
		"Problem":      {client.Error{}, []string{"error", "code", "message"}},
		"SessionPatch": {client.SessionPatch{}, nil},
	} {
		want := slices.DeleteFunc(properties(doc, name), func(p string) bool {
			return slices.Contains(byHand.without, p)
		})
		require.ElementsMatch(t, want, tags(reflect.TypeOf(byHand.value)), name)
	}
	for name, fields := range map[string][]string{
		"SessionList": {"sessions", "next"}, "ErrorEvent": {"type", "problem"},
		"ModelList": {"object", "data"},
	} {
		require.ElementsMatch(t, fields, properties(doc, name), "%s is read field by field", name)
	}
}

func TestClientKnowsAllParameters(t *testing.T) {
	require.ElementsMatch(t,
		[]string{
			"learn", "threshold", "unit", "record_start", "trouble_words", "text", "tokens",
			"offset", "logprobs",
			"top_logprobs", "updates", "field", "once", "wait", "Idempotency-Key",
		}, tags(reflect.TypeOf(client.ScoreParams{})))
	require.ElementsMatch(t,
		[]string{
			"unit", "text", "tokens", "offset", "logprobs", "top_logprobs", "updates",
			"Last-Event-ID",
		}, tags(reflect.TypeOf(client.WatchSessionParams{})))
	require.ElementsMatch(t, []string{"wait"}, tags(reflect.TypeOf(client.CompleteParams{})))
}

func properties(doc *openapi3.T, schema string) (names []string) {
	for name := range doc.Components.Schemas[schema].Value.Properties {
		names = append(names, name)
	}
	return names
}

func tags(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

func TestPatchDetachesShadowByNull(t *testing.T) {
	for want, patch := range map[string]client.SessionPatch{
		`{}`: {}, `{"shadow_of":null}`: {Detach: true},
	} {
		text, err := json.Marshal(patch)
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
	}
}

package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/stream"
)

func TestRoutesAreThoseOfTheContract(t *testing.T) {
	s, err := New(newFake(), Options{})
	require.NoError(t, err)
	var mounted, promised []string
	require.NoError(t, chi.Walk(s.router, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		mounted = append(mounted, method+" "+route)
		return nil
	}))
	for path, item := range document(t).Paths.Map() {
		for method := range item.Operations() {
			promised = append(promised, method+" "+path)
		}
	}
	require.ElementsMatch(t, promised, mounted)
}

// The limits in the contract, wherever they stand, are the constants of limits.go.
func TestLimitsAreThoseOfTheContract(t *testing.T) {
	doc := document(t)
	limits := doc.Info.Extensions["x-limits"].(map[string]any)
	want := map[string]int64{
		"json_body_bytes_max":          JSONBodyBytesMax,
		"score_body_bytes_max":         ScoreBodyBytesMax,
		"import_body_bytes_max":        ImportBodyBytesMax,
		"body_idle_seconds_max":        int64(BodyIdleMax / time.Second),
		"answer_idle_seconds_max":      int64(AnswerIdleMax / time.Second),
		"header_bytes_max":             HeaderBytesMax,
		"header_seconds_max":           int64(HeaderTimeMax / time.Second),
		"connection_idle_seconds_max":  int64(ConnIdleMax / time.Second),
		"key_sessions_default":         KeySessionsDefault,
		"key_requests_default":         KeyRequestsDefault,
		"key_bytes_per_second_default": KeyBytesPerSecondDefault,
		"queue_requests_max":           QueueRequestsMax,
		"seed_max":                     SeedMax,
		"offset_max":                   OffsetMax,
		"labels_max":                   LabelsMax,
		"label_key_chars_max":          LabelKeyCharsMax,
		"label_value_chars_max":        LabelValueCharsMax,
		"ttl_seconds_max":              TTLSecondsMax,
		"list_limit_max":               ListLimitMax,
		"list_limit_default":           ListLimitDefault,
		"session_id_chars_max":         SessionIDCharsMax,
		"completion_tokens_max":        CompletionTokensMax,
		"completion_tokens_default":    CompletionTokensDefault,
		"temperature_max":              TemperatureMax,
		"top_k_max":                    TopKMax,
		"stop_strings_max":             StopStringsMax,
		"stop_chars_max":               StopCharsMax,
	}
	for _, row := range stream.Table {
		if row.Limit != "" {
			want[row.Limit] = int64(row.Max)
		}
		if row.MaxItems > 0 {
			want[row.Limit] = int64(row.MaxItems)
		}
	}
	require.Len(t, limits, len(want))
	for name, value := range want {
		require.EqualValues(t, value, limits[name], name)
	}

	schema := func(name, field string) *openapi3.Schema {
		return doc.Components.Schemas[name].Value.Properties[field].Value
	}
	for _, c := range []struct {
		limit int64
		found any
	}{
		{SeedMax, *schema("SessionRequest", "seed").Max},
		{SeedMax, *schema("CompletionRequest", "seed").Max},
		{LabelsMax, *schema("SessionRequest", "labels").MaxProps},
		{LabelValueCharsMax, *schema("SessionRequest", "labels").AdditionalProperties.Schema.Value.MaxLength},
		{TTLSecondsMax, *schema("SessionRequest", "ttl_seconds").Max},
		{TTLSecondsMax, *schema("ForkRequest", "ttl_seconds").Max},
		{OffsetMax, *schema("ForkRequest", "at_offset").Max},
		{LabelsMax, *schema("ForkRequest", "labels").MaxProps},
		{CompletionTokensMax, *schema("CompletionRequest", "max_tokens").Max},
		{CompletionTokensDefault, schema("CompletionRequest", "max_tokens").Default},
		{TemperatureMax, *schema("CompletionRequest", "temperature").Max},
		{TopKMax, *schema("CompletionRequest", "top_k").Max},
		{StopStringsMax, *schema("CompletionRequest", "stop").OneOf[1].Value.MaxItems},
		{StopCharsMax, *doc.Components.Schemas["StopString"].Value.MaxLength},
		{SessionIDCharsMax, *doc.Components.Parameters["SessionID"].Value.Schema.Value.MaxLength},
	} {
		require.EqualValues(t, c.limit, c.found)
	}
	list, score := doc.Paths.Find("/v1/sessions").Get.Parameters, doc.Paths.Find("/v1/sessions/{id}/score").Post.Parameters
	require.EqualValues(t, ListLimitMax, *list.GetByInAndName("query", "limit").Schema.Value.Max)
	require.EqualValues(t, ListLimitDefault, list.GetByInAndName("query", "limit").Schema.Value.Default)
	require.EqualValues(t, SessionIDCharsMax, *list.GetByInAndName("query", "after").Schema.Value.MaxLength)
	require.EqualValues(t, OffsetMax, *score.GetByInAndName("query", "offset").Schema.Value.Max)
	require.Contains(t, doc.Components.Schemas["Labels"].Value.Description, "1 to 64 characters")
	require.Contains(t, doc.Info.Description, "up to 128 letters")
	require.Equal(t, 128, requestIDCharsMax)
}

// The range of every setting in the contract is that of its row, and the contract has no others.
func TestSettingsAreThoseOfTheTable(t *testing.T) {
	request, answer := document(t).Components.Schemas["SettingsRequest"].Value, document(t).Components.Schemas["Settings"].Value
	var names []string
	for _, row := range stream.Table {
		names = append(names, row.Name)
		found, answered := request.Properties[row.Name].Value, answer.Properties[row.Name].Value
		require.Equal(t, found.Type, answered.Type, row.Name)
		require.Equal(t, found.Format, answered.Format, row.Name)
		if found.Type.Is("array") {
			require.EqualValues(t, 1, found.MinItems)
			require.EqualValues(t, row.MaxItems, *found.MaxItems)
			found = found.Items.Value
		}
		switch {
		case found.Type.Is("number"), found.Type.Is("integer"):
			require.Equal(t, row.Min, *found.Min, row.Name)
			require.Equal(t, row.Max, *found.Max, row.Name)
			require.Equal(t, row.Above, found.ExclusiveMin.IsTrue(), row.Name)
			require.Equal(t, row.Below, found.ExclusiveMax.IsTrue(), row.Name)
		case found.Type.Is("string"):
			require.ElementsMatch(t, row.Words, mapped(found.Enum, func(v any) string { return v.(string) }), row.Name)
		}
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(request.Properties)))
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(answer.Properties)))
	require.Equal(t, names, answer.Required)
}

// The table of problems in the contract is the one the server answers from.
func TestProblemsAreThoseOfTheContract(t *testing.T) {
	schema := document(t).Components.Schemas["ProblemType"].Value
	table := schema.Extensions["x-problems"].(map[string]any)
	require.Len(t, schema.Enum, len(problemKinds))
	require.Len(t, table, len(problemKinds))
	for kind, want := range problemKinds {
		require.True(t, kind.Valid())
		require.Regexp(t, `^urn:lmserve:problem:[a-z]+(-[a-z]+)*$`, string(kind))
		row := table[string(kind)].(map[string]any)
		require.EqualValues(t, want.status, row["status"], kind)
		require.Equal(t, want.title, row["title"], kind)
	}
}

// Every status the server can give a problem is listed at some operation, and every type in the description of some answer.
func TestProblemsStandAtTheirAnswers(t *testing.T) {
	var text strings.Builder
	for _, response := range document(t).Components.Responses {
		text.WriteString(*response.Value.Description)
	}
	text.WriteString(document(t).Info.Description)
	for kind := range problemKinds {
		require.Contains(t, text.String(), "`"+strings.TrimPrefix(string(kind), "urn:lmserve:problem:")+"`")
	}
}

// The words that stand for choices are the same in the contract and in the session manager.
func TestEnumerationsAreThoseOfTheSessions(t *testing.T) {
	for name, words := range map[string][]string{
		"Method":       {session.MethodSparseMeta, session.MethodDynamicSGD, session.MethodDynamicRMS, session.MethodCache, session.MethodStatic},
		"History":      {session.HistoryFull, session.HistoryTail},
		"Commit":       {session.CommitNone, session.CommitPrompt, session.CommitAll},
		"FinishReason": {session.FinishStop, session.FinishLength},
	} {
		require.ElementsMatch(t, words, mapped(document(t).Components.Schemas[name].Value.Enum, func(v any) string { return v.(string) }), name)
	}
}

func TestOptionsAreHeldToTheContract(t *testing.T) {
	for _, bad := range []Options{
		{ScoreBodyBytesMax: -1}, {ScoreBodyBytesMax: ScoreBodyBytesMax + 1}, {BodyIdleMax: BodyIdleMax + 1}, {AnswerIdleMax: -1}, {DrainDelay: -1},
	} {
		_, err := New(newFake(), bad)
		require.ErrorContains(t, err, "server: option")
	}
	require.NoError(t, Options{ScoreBodyBytesMax: 1, BodyIdleMax: 1, AnswerIdleMax: 1, DrainDelay: 1}.Validate())
}

// A schema's words are made for requests; every field of every request has some.
func TestEveryRequestSchemaCanBeDescribed(t *testing.T) {
	for name, ref := range document(t).Components.Schemas {
		if !strings.HasSuffix(name, "Request") && name != "ScoreText" {
			continue
		}
		for field, p := range ref.Value.Properties {
			require.NotEmpty(t, describe(p.Value), name+"."+field)
		}
	}
	for _, item := range document(t).Paths.Map() {
		for _, op := range item.Operations() {
			for _, p := range slices.Concat(item.Parameters, op.Parameters) {
				require.NotEmpty(t, describe(p.Value.Schema.Value), p.Value.Name)
			}
		}
	}
}

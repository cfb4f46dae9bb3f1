package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
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

// The limits in the contract, wherever they stand there, are the constants of package limits.
func TestLimitsAreThoseOfTheContract(t *testing.T) {
	doc := document(t)
	stated := doc.Info.Extensions["x-limits"].(map[string]any)
	want := map[string]int64{
		"json_body_bytes_max":          limits.JSONBodyBytesMax,
		"score_body_bytes_max":         limits.ScoreBodyBytesMax,
		"import_body_bytes_max":        limits.ImportBodyBytesMax,
		"body_idle_seconds_max":        int64(limits.BodyIdleMax / time.Second),
		"answer_idle_seconds_max":      int64(limits.AnswerIdleMax / time.Second),
		"header_bytes_max":             limits.HeaderBytesMax,
		"header_seconds_max":           int64(limits.HeaderTimeMax / time.Second),
		"connection_idle_seconds_max":  int64(limits.ConnIdleMax / time.Second),
		"key_sessions_default":         limits.KeySessionsDefault,
		"key_requests_default":         limits.KeyRequestsDefault,
		"key_bytes_per_second_default": limits.KeyBytesPerSecondDefault,
		"queue_requests_max":           limits.QueueRequestsMax,
		"chunk_tokens_max":             limits.ChunkTokensMax,
		"gammas_max":                   limits.GammasMax,
		"beta_max":                     limits.BetaMax,
		"rate_max":                     limits.RateMax,
		"floor_max":                    limits.FloorMax,
		"cache_size_max":               limits.CacheSizeMax,
		"theta_max":                    limits.ThetaMax,
		"seed_max":                     limits.SeedMax,
		"offset_max":                   limits.OffsetMax,
		"labels_max":                   limits.LabelsMax,
		"label_key_chars_max":          limits.LabelKeyCharsMax,
		"label_value_chars_max":        limits.LabelValueCharsMax,
		"ttl_seconds_max":              limits.TTLSecondsMax,
		"list_limit_max":               limits.ListLimitMax,
		"list_limit_default":           limits.ListLimitDefault,
		"session_id_chars_max":         limits.SessionIDCharsMax,
		"completion_tokens_max":        limits.CompletionTokensMax,
		"completion_tokens_default":    limits.CompletionTokensDefault,
		"temperature_max":              limits.TemperatureMax,
		"top_k_max":                    limits.TopKMax,
		"stop_strings_max":             limits.StopStringsMax,
		"stop_chars_max":               limits.StopCharsMax,
	}
	require.Len(t, stated, len(want))
	for name, value := range want {
		require.EqualValues(t, value, stated[name], name)
	}

	schema := func(name, field string) *openapi3.Schema {
		return doc.Components.Schemas[name].Value.Properties[field].Value
	}
	for _, c := range []struct {
		limit int64
		found any
	}{
		{limits.ChunkTokensMax, *schema("SettingsRequest", "chunk").Max},
		{limits.GammasMax, *schema("SettingsRequest", "gammas").MaxItems},
		{limits.BetaMax, *schema("SettingsRequest", "beta1").Max},
		{limits.BetaMax, *schema("SettingsRequest", "beta2").Max},
		{limits.RateMax, *schema("SettingsRequest", "rate").Max},
		{limits.FloorMax, *schema("SettingsRequest", "floor").Max},
		{limits.CacheSizeMax, *schema("SettingsRequest", "cache_size").Max},
		{limits.ThetaMax, *schema("SettingsRequest", "theta").Max},
		{limits.SeedMax, *schema("SessionRequest", "seed").Max},
		{limits.SeedMax, *schema("CompletionRequest", "seed").Max},
		{limits.LabelsMax, *schema("SessionRequest", "labels").MaxProps},
		{limits.LabelValueCharsMax, *schema("SessionRequest", "labels").AdditionalProperties.Schema.Value.MaxLength},
		{limits.TTLSecondsMax, *schema("SessionRequest", "ttl_seconds").Max},
		{limits.TTLSecondsMax, *schema("ForkRequest", "ttl_seconds").Max},
		{limits.OffsetMax, *schema("ForkRequest", "at_offset").Max},
		{limits.LabelsMax, *schema("ForkRequest", "labels").MaxProps},
		{limits.CompletionTokensMax, *schema("CompletionRequest", "max_tokens").Max},
		{limits.CompletionTokensDefault, schema("CompletionRequest", "max_tokens").Default},
		{limits.TemperatureMax, *schema("CompletionRequest", "temperature").Max},
		{limits.TopKMax, *schema("CompletionRequest", "top_k").Max},
		{limits.StopStringsMax, *schema("CompletionRequest", "stop").OneOf[1].Value.MaxItems},
		{limits.StopCharsMax, *doc.Components.Schemas["StopString"].Value.MaxLength},
		{limits.SessionIDCharsMax, *doc.Components.Parameters["SessionID"].Value.Schema.Value.MaxLength},
	} {
		require.EqualValues(t, c.limit, c.found)
	}
	list, score := doc.Paths.Find("/v1/sessions").Get.Parameters, doc.Paths.Find("/v1/sessions/{id}/score").Post.Parameters
	require.EqualValues(t, limits.ListLimitMax, *list.GetByInAndName("query", "limit").Schema.Value.Max)
	require.EqualValues(t, limits.ListLimitDefault, list.GetByInAndName("query", "limit").Schema.Value.Default)
	require.EqualValues(t, limits.SessionIDCharsMax, *list.GetByInAndName("query", "after").Schema.Value.MaxLength)
	require.EqualValues(t, limits.OffsetMax, *score.GetByInAndName("query", "offset").Schema.Value.Max)
	require.Contains(t, doc.Components.Schemas["Labels"].Value.Description, "1 to 64 characters")
	require.Contains(t, doc.Info.Description, "up to 128 letters")
	require.Equal(t, 128, limits.RequestIDCharsMax)
}

// The table of problems in the contract is the one the server answers from.
func TestProblemsAreThoseOfTheContract(t *testing.T) {
	schema := document(t).Components.Schemas["ProblemType"].Value
	table := schema.Extensions["x-problems"].(map[string]any)
	require.Len(t, schema.Enum, len(problem.Kinds))
	require.Len(t, table, len(problem.Kinds))
	for kind, want := range problem.Kinds {
		require.True(t, kind.Valid())
		require.Regexp(t, `^urn:lmserve:problem:[a-z]+(-[a-z]+)*$`, string(kind))
		row := table[string(kind)].(map[string]any)
		require.EqualValues(t, want.Status, row["status"], kind)
		require.Equal(t, want.Title, row["title"], kind)
	}
}

// Every status the server can give a problem is listed at some operation, and every type in the
// description of some answer.
func TestProblemsStandAtTheirAnswers(t *testing.T) {
	var text strings.Builder
	for _, response := range document(t).Components.Responses {
		text.WriteString(*response.Value.Description)
	}
	text.WriteString(document(t).Info.Description)
	for kind := range problem.Kinds {
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
		var stated []string
		for _, v := range document(t).Components.Schemas[name].Value.Enum {
			stated = append(stated, v.(string))
		}
		require.ElementsMatch(t, words, stated, name)
	}
}

func TestOptionsAreHeldToTheContract(t *testing.T) {
	for _, bad := range []Options{
		{ScoreBodyBytesMax: -1}, {ScoreBodyBytesMax: limits.ScoreBodyBytesMax + 1}, {BodyIdleMax: limits.BodyIdleMax + 1}, {AnswerIdleMax: -1}, {DrainDelay: -1},
	} {
		_, err := New(newFake(), bad)
		require.ErrorContains(t, err, "server: option")
	}
	require.NoError(t, Options{ScoreBodyBytesMax: 1, BodyIdleMax: 1, AnswerIdleMax: 1, DrainDelay: 1}.Validate())
}

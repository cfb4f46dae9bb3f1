package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

func TestRoutesAreThoseOfTheContract(t *testing.T) {
	s, err := New(newFake(), Options{})
	require.NoError(t, err)
	var mounted, promised []string
	require.NoError(t, chi.Walk(s.router, func(method, route string, _ http.Handler,
		_ ...func(http.Handler) http.Handler) error {
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

func TestLimitsAreThoseOfTheContract(t *testing.T) {
	doc := document(t)
	stated := doc.Info.Extensions["x-limits"].(map[string]any)
	want := map[string]int64{
		"json_body_bytes_max":          limits.JSONBodyBytesMax,
		"json_depth_max":               limits.JSONDepthMax,
		"json_members_max":             limits.JSONMembersMax,
		"json_tokens_max":              limits.JSONTokensMax,
		"json_name_bytes_max":          limits.JSONNameBytesMax,
		"score_body_bytes_max":         limits.ScoreBodyBytesMax,
		"unlearnt_bytes_max":           limits.UnlearntBytesMax,
		"answer_lines_bytes_max":       limits.AnswerLinesMax,
		"import_body_bytes_max":        limits.ImportBodyBytesMax,
		"body_idle_seconds_max":        int64(limits.BodyIdleMax / time.Second),
		"answer_idle_seconds_max":      int64(limits.AnswerIdleMax / time.Second),
		"backup_idle_seconds_max":      int64(limits.BackupIdleMax / time.Second),
		"backup_seconds_max":           int64(limits.BackupLifeMax / time.Second),
		"header_bytes_max":             limits.HeaderBytesMax,
		"header_seconds_max":           int64(limits.HeaderTimeMax / time.Second),
		"connection_idle_seconds_max":  int64(limits.ConnIdleMax / time.Second),
		"key_sessions_default":         limits.KeySessionsDefault,
		"key_requests_default":         limits.KeyRequestsDefault,
		"key_bytes_per_second_default": limits.KeyBytesPerSecondDefault,
		"key_disk_bytes_default":       limits.KeyDiskBytesDefault,
		"queue_requests_max":           limits.QueueRequestsMax,
		"score_texts_max":              limits.ScoreTextsMax,
		"seed_max":                     limits.SeedMax,
		"offset_max":                   limits.OffsetMax,
		"labels_max":                   limits.LabelsMax,
		"label_key_chars_max":          limits.LabelKeyCharsMax,
		"label_value_chars_max":        limits.LabelValueCharsMax,
		"ttl_seconds_max":              limits.TTLSecondsMax,
		"list_limit_max":               limits.ListLimitMax,
		"list_limit_default":           limits.ListLimitDefault,
		"session_id_chars_max":         limits.SessionIDCharsMax,
		"session_name_chars_max":       limits.SessionNameCharsMax,
		"feed_wait_seconds":            int64(limits.FeedWait / time.Second),
		"log_body_bytes_max":           limits.LogBodyBytesMax,
		"idempotency_key_chars_max":    limits.IdempotencyKeyCharsMax,
		"session_waiting_max":          limits.SessionWaitingMax,
		"session_shadows_max":          limits.SessionShadowsMax,
		"wait_seconds_max":             limits.WaitSecondsMax,
		"text_length_default":          limits.TextLengthDefault,
		"text_length_max":              limits.TextLengthMax,
		"scores_length_max":            limits.ScoresLengthMax,
		"scores_points_default":        limits.ScoresPointsDefault,
		"scores_points_max":            limits.ScoresPointsMax,
		"watch_idle_seconds_max":       int64(limits.WatchIdleMax / time.Second),
		"watcher_bytes_max":            limits.WatcherBytesMax,
		"completion_tokens_default":    limits.CompletionTokensDefault,
		"stop_strings_max":             limits.StopStringsMax,
		"stop_chars_max":               limits.StopCharsMax,
		"openai_prompts_max":           limits.OpenAIPromptsMax,
		"openai_texts_max":             limits.OpenAITextsMax,
		"openai_prompt_tokens_max":     limits.OpenAIPromptTokensMax,
		"openai_sampled_tokens_max":    limits.OpenAISampledTokensMax,
		"openai_logprobs_max":          limits.OpenAILogprobsMax,
		"openai_temperature_max":       limits.OpenAITemperatureMax,
		"openai_tokens_default":        limits.OpenAITokensDefault,
		"openai_user_chars_max":        limits.OpenAIUserCharsMax,
		"openai_model_chars_max":       limits.OpenAIModelCharsMax,
		"openai_answer_bytes_max":      limits.OpenAIAnswerBytesMax,
		"tokenize_chars_max":           limits.TokenizeCharsMax,
		"token_id_max":                 limits.TokenIDMax,
	}
	maps.Copy(want, limitsOf(stream.Table))
	maps.Copy(want, limitsOf(session.SamplingTable))
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
		{limits.SeedMax, *schema("SessionRequest", "seed").Max},
		{limits.SeedMax, *schema("CompletionRequest", "seed").Max},
		{limits.LabelsMax, *schema("SessionRequest", "labels").MaxProps},
		{limits.LabelValueCharsMax, *schema("SessionRequest",
			"labels").AdditionalProperties.Schema.Value.MaxLength},
		{limits.TTLSecondsMax, *schema("SessionRequest", "ttl_seconds").Max},
		{limits.TTLSecondsMax, *schema("ForkRequest", "ttl_seconds").Max},
		{limits.OffsetMax, *schema("ForkRequest", "at_offset").Max},
		{limits.LabelsMax, *schema("ForkRequest", "labels").MaxProps},
		{limits.CompletionTokensDefault, schema("CompletionRequest", "max_tokens").Default},
		{limits.StopStringsMax, *schema("CompletionRequest", "stop").OneOf[1].Value.MaxItems},
		{limits.StopCharsMax, *doc.Components.Schemas["StopString"].Value.MaxLength},
		{limits.SessionIDCharsMax,
			*doc.Components.Parameters["SessionID"].Value.Schema.Value.MaxLength},
		{limits.OpenAIPromptTokensMax, *schema("OpenAICompletionRequest",
			"prompt").OneOf[0].Value.MaxLength},
		{limits.OpenAIPromptsMax, *schema("OpenAICompletionRequest",
			"prompt").OneOf[1].Value.MaxItems},
		{limits.OpenAIPromptTokensMax, *schema("OpenAICompletionRequest",
			"prompt").OneOf[1].Value.Items.Value.MaxLength},
		{limits.OpenAIPromptTokensMax, *doc.Components.Schemas["TokenList"].Value.MaxItems},
		{limits.OpenAIPromptsMax, *schema("OpenAICompletionRequest",
			"prompt").OneOf[3].Value.MaxItems},
		{limits.OpenAITextsMax, *schema("OpenAICompletionRequest", "n").Max},
		{limits.OpenAITextsMax, *schema("OpenAICompletionRequest", "best_of").Max},
		{limits.OpenAISampledTokensMax, *schema("OpenAICompletionRequest", "max_tokens").Max},
		{limits.OpenAITokensDefault, schema("OpenAICompletionRequest", "max_tokens").Default},
		{limits.OpenAILogprobsMax, *schema("OpenAICompletionRequest", "logprobs").Max},
		{limits.OpenAILogprobsMax, *schema("CompletionRequest", "top_logprobs").Max},
		{limits.OpenAITemperatureMax, *schema("OpenAICompletionRequest", "temperature").Max},
		{limits.SeedMax, *schema("OpenAICompletionRequest", "seed").Max},
		{limits.StopStringsMax, *schema("OpenAICompletionRequest", "stop").OneOf[1].Value.MaxItems},
		{limits.OpenAIUserCharsMax, *schema("OpenAICompletionRequest", "user").MaxLength},
		{limits.OpenAIModelCharsMax, *schema("OpenAICompletionRequest", "model").MaxLength},
		{limits.TokenizeCharsMax, *schema("TokenizeRequest", "prompt").MaxLength},
		{limits.OpenAIPromptTokensMax, *schema("DetokenizeRequest", "tokens").MaxItems},
		{limits.TokenIDMax, *doc.Components.Schemas["TokenID"].Value.Max},
	} {
		require.EqualValues(t, c.limit, c.found)
	}
	list, score := doc.Paths.Find("/v1/sessions").Get.Parameters,
		doc.Paths.Find("/v1/sessions/{id}/score").Post.Parameters
	require.EqualValues(t, limits.ListLimitMax, *list.GetByInAndName("query",
		"limit").Schema.Value.Max)
	require.EqualValues(t, limits.ListLimitDefault, list.GetByInAndName("query",
		"limit").Schema.Value.Default)
	require.EqualValues(t, limits.SessionIDCharsMax, *list.GetByInAndName("query",
		"after").Schema.Value.MaxLength)
	require.EqualValues(t, limits.OffsetMax, *score.GetByInAndName("query",
		"offset").Schema.Value.Max)
	require.Contains(t, doc.Components.Schemas["Labels"].Value.Description, "1 to 64 characters")
	require.Contains(t, doc.Info.Description, "up to 128 letters")
	require.Equal(t, 128, limits.RequestIDCharsMax)
}

func limitsOf[T any](table setting.Table[T]) map[string]int64 {
	limits := map[string]int64{}
	for _, row := range table {
		if row.Limit != "" {
			limits[row.Limit] = int64(row.Max)
		}
		if row.MaxItems > 0 {
			limits[row.Limit] = int64(row.MaxItems)
		}
	}
	return limits
}

func TestSettingsAreThoseOfTheTable(t *testing.T) {
	request := document(t).Components.Schemas["SettingsRequest"].Value
	inForce := document(t).Components.Schemas["Settings"].Value
	requireSchemas(t, stream.Table, request)
	var names []string
	for _, row := range stream.Table {
		names = append(names, row.Name)
		require.Equal(t, request.Properties[row.Name].Value.Type,
			inForce.Properties[row.Name].Value.Type, row.Name)
		require.Equal(t, request.Properties[row.Name].Value.Format,
			inForce.Properties[row.Name].Value.Format, row.Name)
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(request.Properties)))
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(inForce.Properties)))
	require.Equal(t, names, inForce.Required)
}

func TestSamplingIsThatOfTheTable(t *testing.T) {
	request := document(t).Components.Schemas["CompletionRequest"].Value
	requireSchemas(t, session.SamplingTable, request)
	for _, row := range session.SamplingTable {
		require.Equal(t, row.Default, fmt.Sprint(request.Properties[row.Name].Value.Default),
			row.Name)
	}
}

func requireSchemas[T any](t *testing.T, table setting.Table[T], object *openapi3.Schema) {
	for _, row := range table {
		found := object.Properties[row.Name].Value
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
			require.Len(t, found.Enum, len(row.Words), row.Name)
			for _, word := range row.Words {
				require.Contains(t, found.Enum, any(word), row.Name)
			}
		}
	}
}

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

// The contract mentions each problem type in its introduction or in the description of an answer.
func TestProblemsStandAtTheirAnswers(t *testing.T) {
	var text strings.Builder
	for _, response := range document(t).Components.Responses {
		text.WriteString(*response.Value.Description)
	}
	text.WriteString(document(t).Info.Description)
	for kind := range problem.Kinds {
		require.Contains(t, text.String(), "`"+strings.TrimPrefix(string(kind),
			"urn:lmserve:problem:")+"`")
	}
}

// An operation lists status 406 if and only if its successful answer has content, because only then
// can an Accept header exclude the answer.
func TestEveryAnswerWithAFormMayBeRefused(t *testing.T) {
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			refuses := op.Responses.Value("406") != nil
			require.Equal(t, len(contract.OffersOf(op)) > 0, refuses, method+" "+path)
		}
	}
}

func TestEnumerationsAreThoseOfTheSessions(t *testing.T) {
	for name, words := range map[string][]string{
		"Method": {session.MethodSparseMeta, session.MethodDynamicSGD,
			session.MethodDynamicRMS, session.MethodCache, session.MethodCounts,
			session.MethodStatic},
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
		{ScoreBodyBytesMax: -1}, {ScoreBodyBytesMax: limits.ScoreBodyBytesMax + 1},
		{BodyIdleMax: limits.BodyIdleMax + 1}, {AnswerIdleMax: -1}, {DrainDelay: -1},
	} {
		_, err := New(newFake(), bad)
		require.ErrorContains(t, err, "server: option")
	}
	require.NoError(t, Options{ScoreBodyBytesMax: 1, BodyIdleMax: 1, AnswerIdleMax: 1,
		DrainDelay: 1}.Validate())
}

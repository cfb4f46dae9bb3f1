package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// jsonValue encodes v as JSON, and decodes this JSON with numbers as json.Number.
func jsonValue(t require.TestingT, v any) any {
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return decoded(t, raw)
}

func decoded(t require.TestingT, raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}

// varies matches the names of fields whose values depend on time, on the processor's arithmetic or
// on the model.
var varies = regexp.MustCompile(`^(id|next|model|request_id|created|created_at|last_used_at|` +
	`elapsed_ms|memory_bytes|session_bytes|disk_bytes|numerics|bits|baseline_bits|bpc|` +
	`baseline_bpc|perplexity|` +
	`fast_rms|p|rank|from|to|text|text_base64|token_bits|logprobs|token_logprobs|top_logprobs|` +
	`baseline_logprobs|baseline_top_logprobs|norm|change|time|card|message|detail|` +
	`parameters)$`)

// requireAlike checks that an answer has the same fields as an example, with the same types and
// equal values. The values may differ in fields whose names match the pattern varies.
func requireAlike(t require.TestingT, name, path string, want, got any) {
	at := name + ": " + path
	require.Equal(t, fmt.Sprintf("%T", want), fmt.Sprintf("%T", got), at)
	last := path[strings.LastIndexByte(path, '.')+1:]
	switch want := want.(type) {
	case map[string]any:
		if varies.MatchString(last) && last != "logprobs" {
			return
		}
		got := got.(map[string]any)
		names, found := slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got))
		require.ElementsMatch(t, names, found, at)
		for key := range want {
			requireAlike(t, name, strings.TrimPrefix(path+"."+key, "."), want[key], got[key])
		}
	case []any:
		if varies.MatchString(last) {
			return
		}
		got := got.([]any)
		require.Len(t, got, len(want), at)
		for i := range want {
			requireAlike(t, name, path, want[i], got[i])
		}
	case string:
		if path == "" {
			requireTextAlike(t, name, want, got.(string))
		} else if !varies.MatchString(last) {
			require.Equal(t, want, got, at)
		}
	default:
		if !varies.MatchString(last) {
			require.Equal(t, want, got, at)
		}
	}
}

// requireTextAlike compares two event streams event by event. The number of pieces of generated
// text may differ. Other texts must be equal.
func requireTextAlike(t require.TestingT, name, want, got string) {
	if !strings.HasPrefix(want, "{") && !strings.HasPrefix(want, "event: ") &&
		!strings.HasPrefix(want, "data: ") {
		require.Equal(t, want, got, name)
		return
	}
	wantEvents, gotEvents := eventsOf(t, want), eventsOf(t, got)
	require.Len(t, gotEvents, len(wantEvents), name)
	for i := range wantEvents {
		requireAlike(t, name, fmt.Sprintf("[%d]", i), wantEvents[i], gotEvents[i])
	}
}

// eventsOf decodes the JSON objects of an event stream. Of several consecutive pieces of generated
// text it returns only the last.
func eventsOf(t require.TestingT, text string) (events []any) {
	was := ""
	for line := range strings.Lines(text) {
		raw := []byte(strings.TrimSpace(strings.TrimPrefix(line, "data: ")))
		if !json.Valid(raw) || len(raw) == 0 || raw[0] != '{' {
			continue
		}
		object := decoded(t, raw).(map[string]any)
		kind := fmt.Sprint(
			object["type"],
			object["choices"] != nil && len(object["choices"].([]any)) > 0,
		)
		if kind == was && (object["type"] == "piece" || object["choices"] != nil) {
			events[len(events)-1] = object // the last piece says how the text ends
			continue
		}
		was = kind
		events = append(events, object)
	}
	return events
}

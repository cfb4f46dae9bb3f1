package server

import (
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// The decoded tree of some JSON bodies would take at least 30 times the memory of the body. The
// server refuses such a body before decoding. The cost must not grow with the body's size.
func TestJSONBodiesAreBoundedBeforeATreeIsMade(t *testing.T) {
	s, err := New(newFake(), Options{})
	require.NoError(t, err)
	full := func(begin, each, end string) string {
		return begin + strings.Repeat(each,
			(limits.JSONBodyBytesMax-len(begin)-len(end))/len(each)) + end
	}
	for _, c := range []struct{ path, body, field, found, expected string }{
		{"/v1/sessions", full(`{"settings":{"gammas":[`, "1,", `1]}}`), "settings.gammas",
			"more than 64 values", "1 to 8 values, each a number from 0 to 1"},
		{"/v1/sessions", full(`{"x":[`, "[],", `1]}`), "x", "an unknown field",
			"an object with only the fields history, labels, model, seed, settings, shadow_of, " +
				"ttl_seconds"},
		{"/v1/sessions", full(``, "[", ``), "body", "an array", "an object with only the fields " +
			"history, labels, model, seed, settings, shadow_of, ttl_seconds"},
		{"/v1/sessions", full(`[`, "{},", `{}]`), "body", "more than 64 values",
			"an object with only the fields history, labels, model, seed, settings, shadow_of, " +
				"ttl_seconds"},
		{"/v1/sessions/s-0001/complete", full(`{"stop":[`, `"",`, `""]}`), "stop",
			"more than 64 values", "a string of at most 256 characters or at most 32 values, " +
				"each a string of at most 256 characters"},
		{"/v1/sessions/s-0001/score", full(`{"text":[`, "1,", `1]}`), "text", "more than 64 values",
			"a string"},
	} {
		r := httptest.NewRequest("POST", "http://localhost"+c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.router.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		p := decode[api.Problem](t, w.Result(), problem.Kinds[api.ProblemInvalidField].Status)
		require.Equal(t, []string{c.field, c.found, c.expected}, []string{*p.Field, *p.Found,
			*p.Expected}, c.body[:40])
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(limits.JSONBodyBytesMax/8),
			c.body[:40])
	}
	require.NoError(t, s.Drain(t.Context()))
}

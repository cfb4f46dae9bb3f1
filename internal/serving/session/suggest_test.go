package session

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// A session that was asked for suggestions, by many at once, scores to the bit what one does that was
// not; and sessions of the same text suggest the same.
func TestSuggestionsLeaveTheSessionAsItIs(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		if r.Settings[`method`] == MethodCache {
			return
		}
		asked, alone, fresh := create(t, mg, r), create(t, mg, r), create(t, mg, r)
		text := logText(200)
		for _, piece := range cut(t, text, 60) {
			var wait sync.WaitGroup
			for _, typed := range []string{"", "GET", "é 2"} {
				wait.Go(func() {
					_, err := mg.Suggest(context.Background(), Caller{}, asked, SuggestRequest{Typed: []byte(typed), N: 3})
					require.NoError(t, err)
				})
			}
			wait.Wait()
			score(t, mg, asked, piece)
		}
		score(t, mg, alone, text)
		require.Equal(t, hash(t, mg, alone), hash(t, mg, asked))
		score(t, mg, fresh, text)
		request := SuggestRequest{Typed: []byte("GE"), N: 5, Unit: string(suggest.Free)}
		first, err := mg.Suggest(context.Background(), Caller{}, fresh, request)
		require.NoError(t, err)
		require.EqualValues(t, len(text), first.Offset)
		again, err := mg.Suggest(context.Background(), Caller{}, alone, request)
		require.NoError(t, err)
		require.Equal(t, first, again)
	})
}

// What suggestions have computed counts in the memory, and goes with the state.
func TestSuggestionsCountInTheMemory(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	score(t, mg, id, logText(100))
	before := get(t, mg, id).MemoryBytes
	_, err := mg.Suggest(t.Context(), Caller{}, id, SuggestRequest{N: 5})
	require.NoError(t, err)
	require.Greater(t, get(t, mg, id).MemoryBytes, before)
	withSession(t, mg, id, func(s *session) { s.dropLocked() })
	require.Less(t, get(t, mg, id).MemoryBytes, before)
}

func TestSuggestRefusesWhatItCannotDo(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	id := create(t, mg, CreateRequest{})
	for field, r := range map[string]SuggestRequest{
		"n":               {N: 0},
		"typed":           {N: 1, Typed: []byte(strings.Repeat("x", 1025))},
		"unit":            {N: 1, Unit: "sentence"},
		"min_probability": {N: 1, Least: 1.5},
		"within_ms":       {N: 1, Within: -1},
	} {
		_, err := mg.Suggest(t.Context(), Caller{}, id, r)
		var wrong *FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Field)
	}
	_, err := mg.Suggest(t.Context(), Caller{}, "nobody", SuggestRequest{N: 1})
	require.ErrorIs(t, err, ErrNotFound)
}

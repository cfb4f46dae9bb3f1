package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// Suggestions after a prompt equal those of a session that was fed the prompt without learning.
func TestPromptIsReadBeforeSuggestions(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	static := CreateRequest{Settings: Settings{"method": MethodStatic, "companion": true}}
	r := SuggestRequest{N: 5, Unit: string(suggest.Free)}
	for _, bytes := range []int{0, 30, stream.TypedMax, stream.TypedMax + 300} {
		for _, fed := range []string{"", logText(100)} {
			prompt := logText(100 + bytes)[100:]
			twin := create(t, mg, static)
			score(t, mg, twin, fed+prompt)
			want, err := mg.Suggest(t.Context(), Caller{}, twin, r)
			require.NoError(t, err)
			id := ""
			if fed != "" {
				id = create(t, mg, static)
				score(t, mg, id, fed)
			}
			model := mg.Model().Name
			got, err := mg.SuggestAfter(t.Context(), Caller{}, id, model, []byte(prompt), r)
			require.NoError(t, err)
			require.Len(t, got.Candidates, len(want.Candidates))
			for i, c := range want.Candidates {
				require.Equal(t, c.Text, got.Candidates[i].Text)
				require.InEpsilon(t, c.Probability, got.Candidates[i].Probability, 1e-4)
			}
			require.EqualValues(t, len(fed), got.Offset)
		}
	}
}

// A request with little time reads a part of a long prompt, and the next request continues. Without
// memory to keep the part, a request reads the whole prompt.
func TestLittleTimeReadsALongPromptInParts(t *testing.T) {
	prompt := []byte(logText(3 * stream.TypedMax))
	whole := SuggestRequest{N: 5, Unit: string(suggest.Free)}
	ask := func(mg *Manager, r SuggestRequest) Suggested {
		found, err := mg.SuggestAfter(t.Context(), Caller{}, "", mg.Model().Name, prompt, r)
		require.NoError(t, err)
		return found
	}
	want := ask(newManager(t, Options{Threads: 2}), whole)
	require.NotEmpty(t, want.Candidates)

	mg := newManager(t, Options{Threads: 2})
	short, requests := whole, 1
	short.Within = 1
	for ; len(ask(mg, short).Candidates) == 0; requests++ {
		require.Less(t, requests, len(prompt))
	}
	require.Greater(t, requests, 5)
	require.Equal(t, want, ask(mg, whole), "no bit depends on the parts")

	least, err := MemoryMin(testModel(t))
	require.NoError(t, err)
	tight := newManager(t, Options{MaxMemoryBytes: least})
	require.NotEmpty(t, ask(tight, short).Candidates)
	require.Empty(t, tight.engine.prefixes.mu.kept)
}

package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// Suggestions after a prompt are those of a session that learns nothing and was fed the prompt. The
// prompt may be short or long, with a session or without.
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

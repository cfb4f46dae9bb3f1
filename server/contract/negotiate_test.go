package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzAcceptNeverPicksWhatWasNotOffered(f *testing.F) {
	for _, seed := range []string{"*/*", "text/*;q=0.3, application/json;q=NaN", ";;,,",
		"a/b;q=1e400", "/;q=-0"} {
		f.Add(seed)
	}
	offers := []string{MediaJSON, MediaNDJSON, MediaEventStream}
	f.Fuzz(func(t *testing.T, accept string) {
		if media := ChooseMedia(accept, offers); media != "" {
			require.Contains(t, offers, media)
		}
	})
}

package codec

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/tokenizer"
)

// A perplexity beyond float64 becomes the largest float64: JSON has no infinity, and clients expect
// a number.
func TestPerplexityIsThereWhereTokensAre(t *testing.T) {
	for _, words := range []bool{false, true} {
		m := Encoder{words: words}.measures(session.Tally{
			Tally:        tokenizer.Tally{Bytes: 1, Chars: 1, Tokens: 1, Bits: 1025},
			BaselineBits: new(1024.),
		})
		require.Equal(t, new(math.MaxFloat64), m.Perplexity)
		if words {
			require.Equal(t, new(math.MaxFloat64), m.BaselinePerplexity)
		}
		_, err := json.Marshal(m)
		require.NoError(t, err)
		require.Nil(t, Encoder{words: words}.measures(session.Tally{}).Perplexity)
	}
}

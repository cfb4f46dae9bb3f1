package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func textsOf(n int) (texts [][]byte) {
	all := strings.Repeat("the cat sat on the mat, and the dog on the log. ", 40)
	for i := range n {
		from := i * 13 % 200
		texts = append(texts, []byte(all[from:from+i*i*7%300]))
	}
	return texts
}

func TestScoreTextsEqualsSessions(t *testing.T) {
	for _, threads := range []int{1, 3} {
		methods := []string{MethodStatic, MethodSparseMeta, MethodDynamicSGD, MethodCache}
		for _, method := range methods {
			t.Run(fmt.Sprint(method, threads), func(t *testing.T) {
				mg := newManager(t, Options{Threads: threads})
				r := ScoreTextsRequest{
					Settings: Settings{"method": method, "baseline": true}, Texts: textsOf(12),
					Seed: new(uint64(7)),
				}
				var got []Summary
				add := func(_ ModelInfo, s Summary) error {
					got = append(got, s)
					return nil
				}
				require.NoError(t, mg.ScoreTexts(background, Caller{}, r, add))
				require.Len(t, got, len(r.Texts))
				for i, text := range r.Texts {
					id := create(t, mg, CreateRequest{Settings: r.Settings, Seed: r.Seed})
					want, err := feedLines(mg, id, string(text), ScoreOptions{})
					require.NoError(t, err)
					require.Equal(t, math.Float64bits(want.Bits), math.Float64bits(got[i].Bits))
					want.Elapsed, got[i].Elapsed = 0, 0
					require.Equal(t, want, got[i])
				}
				require.Equal(t, len(r.Texts), mg.Stats().Sessions, "it leaves none behind")
			})
		}
	}
}

func TestScoreTextsStopsWithItsCaller(t *testing.T) {
	mg := newManager(t, Options{Threads: 2})
	ctx, cancel := context.WithCancel(background)
	n, long := 0, []byte(strings.Repeat("word ", 20_000))
	texts := [][]byte{[]byte("a")}
	for range 50 {
		texts = append(texts, long)
	}
	r := ScoreTextsRequest{Texts: texts}
	err := mg.ScoreTexts(ctx, Caller{}, r, func(ModelInfo, Summary) error {
		n++
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, n)
	gone := errors.New("gone")
	err = mg.ScoreTexts(background, Caller{}, r, func(ModelInfo, Summary) error {
		return gone
	})
	require.ErrorIs(t, err, gone)
	require.Zero(t, mg.Stats().MemoryBytes)
}

// The client disconnects while emit gets the last summary, after all texts were scored. ScoreTexts
// still returns an error.
func TestScoreTextsTellsThatItWasCutShort(t *testing.T) {
	mg := newManager(t, Options{Threads: 1})
	ctx, cancel := context.WithCancel(background)
	n := 0
	err := mg.ScoreTexts(ctx, Caller{}, ScoreTextsRequest{Texts: [][]byte{nil}},
		func(ModelInfo, Summary) error {
			n++
			cancel()
			return ctx.Err()
		})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, n)
}

func TestScoreTextsRefusesWhatCannotBe(t *testing.T) {
	mg := newManager(t, Options{})
	for field, r := range map[string]ScoreTextsRequest{
		"texts":  {},
		"method": {Texts: [][]byte{nil}, Settings: Settings{"method": "magic"}},
	} {
		var wrong *FieldError
		err := mg.ScoreTexts(background, Caller{}, r, func(ModelInfo, Summary) error { return nil })
		require.ErrorAs(t, err, &wrong)
		require.Contains(t, wrong.Field, field)
	}
	none := ScoreTextsRequest{Model: "none", Texts: [][]byte{nil}}
	err := mg.ScoreTexts(background, Caller{}, none, func(ModelInfo, Summary) error { return nil })
	require.Error(t, err)
}

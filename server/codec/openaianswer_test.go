package codec

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// AnswerBytes must cover all three copies of the scores: as collected, as JSON lists, and in the
// encoded answer. The test uses the longest names and numbers.
func TestWholeAnswerTakesNoMoreThanItBorrows(t *testing.T) {
	model := session.ModelInfo{ID: "m"}
	long := -float64(
		math.SmallestNonzeroFloat32,
	) * math.Pi // a number with the longest encoding in JSON
	for _, top := range []int{0, 1, 20} {
		for _, text := range []string{strings.Repeat("\x00", 5000), strings.Repeat("\xff", 5000),
			strings.Repeat("x", 5000)} {
			r := session.BatchRequest{
				Prompts:   [][]byte{[]byte(text)},
				N:         2,
				MaxTokens: 0,
				Echo:      true,
				LogProbs:  true,
				Top:       top,
			}
			a := NewOpenAIAnswer("cmpl-1", model, time.Now(), r)
			kept := 0
			for i := range r.N {
				p := session.Piece{
					Text:         []byte(text),
					Index:        i,
					FinishReason: session.FinishLength,
				}
				for range text {
					p.LogProbs = append(p.LogProbs, long)
					var candidates []session.Candidate
					for id := range top {
						candidates = append(
							candidates,
							session.Candidate{ID: int32(200 + id), LogProb: long},
						)
					}
					p.Top = append(p.Top, candidates)
				}
				a.Add(p)
				b := &a.texts[i].logProbs
				kept += cap(b.tokens) + cap(b.logProbs) + cap(b.top) + cap(b.offsets)
			}
			whole := a.Whole()
			block := 0
			for _, c := range whole.Choices {
				block += len(*c.Logprobs)
			}
			raw, err := json.Marshal(whole)
			require.NoError(t, err)
			require.LessOrEqual(
				t,
				int64(kept+block+len(raw)),
				AnswerBytes(model, r),
				"top %d, %.4q",
				top,
				text,
			)
			require.Greater(
				t,
				6*int64(kept+block+len(raw)),
				AnswerBytes(model, r),
				"nor is it far more",
			)
		}
	}
}

func TestWholeAnswerOfWordsTakesNoMoreThanItBorrows(t *testing.T) {
	small, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	sessions, err := session.NewManager(small, session.Options{Threads: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, sessions.Drain(t.Context())) }()
	model := sessions.Model()
	const words = 1000
	long := -float64(math.SmallestNonzeroFloat32) * math.Pi
	word := int32(model.Vocab - 1) // the longest word of the vocabulary
	for _, top := range []int{0, 1, 20} {
		r := session.BatchRequest{
			Prompts: [][]byte{nil}, N: 1, MaxTokens: words, LogProbs: true, Top: top,
		}
		a := NewOpenAIAnswer("cmpl-1", model, time.Now(), r)
		p := session.Piece{FinishReason: session.FinishLength}
		for range words {
			text := model.Spell(nil, word, word)
			require.Len(t, text, model.TokenBytes)
			p.Text = append(p.Text, text...)
			p.Words.IDs, p.Words.Sizes = append(p.Words.IDs, word),
				append(p.Words.Sizes, int64(len(text)))
			p.LogProbs = append(p.LogProbs, long)
			p.Top = append(p.Top, slices.Repeat([]session.Candidate{{ID: word, LogProb: long}},
				top))
		}
		a.Add(p)
		b := &a.texts[0].logProbs
		kept := cap(b.tokens) + cap(b.logProbs) + cap(b.top) + cap(b.offsets)
		whole := a.Whole()
		raw, err := json.Marshal(whole)
		require.NoError(t, err)
		used := int64(kept + len(*whole.Choices[0].Logprobs) + len(raw))
		require.LessOrEqual(t, used, AnswerBytes(model, r), "top %d", top)
		require.Greater(t, 6*used, AnswerBytes(model, r), "nor is it far more")
	}
}

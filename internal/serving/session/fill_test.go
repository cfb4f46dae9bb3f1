package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

func TestTextMayEndWhereItRepeatsSuffix(t *testing.T) {
	for _, c := range []struct {
		text, suffix string
		ends         []int
	}{
		{"len(x))", ")\n", []int{5, 6, 7}},
		{"a\nb\nc", "\n", []int{1, 3, 5}},
		{"a\n\tb = 1\n", "\n\tb = 1\nmore", []int{1, 8, 9}},
		{"", "x", []int{0}},
		{"x", "x", []int{0, 1}},
		{"one\ntwo\nthree\nfour\n", "", []int{3, 7, 13, 19}},
	} {
		require.Equal(t, c.ends, fillingEnds([]byte(c.text), []byte(c.suffix)), c)
	}
	for suffix, want := range map[string]string{
		"zx": "zx", "zx \nmore": "zx", "\n \n": "", "": "", " zx": " zx",
		strings.Repeat("é", 99): strings.Repeat("é", beginningMax),
	} {
		require.Equal(t, want, beginning(suffix))
	}
}

// rounding is the allowed difference, in nats, between two ways of computing the cost of a text.
const rounding = 1e-3

// The response is the sampled text with the lowest cost together with the suffix. Equal seeds give
// equal responses, whatever was requested before.
func TestTextBeforeSuffixCostsLeastWithIt(t *testing.T) {
	m := testModel(t)
	w := stream.NewWorker(m, 1)
	defer w.Close()
	mg, other := newManager(t, Options{Threads: 2}), newManager(t, Options{Threads: 1})
	rapid.Check(t, func(t *rapid.T) {
		request, fed := drawRequest(t), logText(rapid.IntRange(0, 60).Draw(t, "fed"))
		if request.Settings["method"] == MethodCache { // the method cache does not rank texts
			request.Settings["method"] = MethodStatic
		}
		base, _ := alone(t, m, request, fed)
		text := logText(300)
		at := rapid.IntRange(0, 200).Draw(t, "at")
		suffix := text[at+10:][:rapid.IntRange(1, 60).Draw(t, "suffix")]
		r := BatchRequest{
			Prompts: [][]byte{[]byte(text[:at])}, N: rapid.IntRange(1, 4).Draw(t, "n"),
			MaxTokens: rapid.IntRange(1, 40).Draw(t, "tokens"), LogProbs: true,
			Suffix:      []byte(suffix),
			Temperature: ptr(rapid.SampledFrom([]float64{0, 1}).Draw(t, "temperature")),
			Seed:        ptr(rapid.Uint64Range(0, SeedMax-9).Draw(t, "seed")),
		}
		costs := func(text string) (nats float64) {
			s := base.Frozen()
			w.Feed(s, r.Prompts[0], nil)
			w.Feed(s, []byte(text), func(_ []byte, scores stream.Scores) {
				for _, nll := range scores.NLL {
					nats += float64(nll)
				}
			})
			return nats
		}
		scored := suffix[:min(len(suffix), fillSuffixBytes)]
		var answers [][][]Piece
		for _, mg := range []*Manager{mg, other, mg} {
			id := create(t, mg, request)
			score(t, mg, id, fed)
			answers = append(answers, batch(t, mg, id, r))
			require.Equal(t, base.Hash(), hash(t, mg, id), "the session is as it was")
			require.NoError(t, mg.Delete(Caller{}, id))
		}
		require.Equal(t, answers[0], answers[1])
		require.Equal(t, answers[0], answers[2])

		var ends []string
		for i := range max(fillTexts, r.N) {
			one := r
			one.Suffix, one.N, one.Seed = nil, 1, ptr(*r.Seed+uint64(i))
			if i > 0 {
				one.Temperature = ptr(max(*r.Temperature, fillTemperature))
			}
			id := create(t, mg, request)
			score(t, mg, id, fed)
			plain, _ := joined(batch(t, mg, id, one)[0])
			require.NoError(t, mg.Delete(Caller{}, id))
			line, _, ended := strings.Cut(plain, "\n")
			if i > 0 && ended && strings.TrimSpace(line) != "" {
				plain = line + "\n"
			}
			ends = append(ends, plain)
		}
		last := 0.
		for _, pieces := range answers[0] {
			got, logProbs := joined(pieces)
			require.Len(t, logProbs, len(got))
			sampled := false
			for _, text := range ends {
				sampled = sampled || strings.HasPrefix(text, got)
			}
			require.True(t, sampled, "%q is the beginning of one of %q", got, ends)
			cost := costs(got + scored)
			require.GreaterOrEqual(t, cost, last-rounding, "the best comes first")
			last = cost
		}
		best, _ := joined(answers[0][0])
		for _, text := range ends {
			if !strings.Contains(text, "\n") && len(repeats([]byte(text), r.Suffix)) == 0 {
				require.LessOrEqual(t, costs(best+scored), costs(text+scored)+rounding)
			}
		}
	})
}

package eval

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

func tokenName(m *model.Model) string {
	if m.OfWords() {
		return "token"
	}
	return "byte"
}

func newMeter(m *model.Model, marks []int64) *meter {
	return &meter{unknown: m.Tokenizer.Unknown(), marks: marks}
}

// feeder feeds texts to streams of a model. It measures the time that scoring and adapting take.
type feeder struct {
	model  *model.Model
	worker *stream.Worker
	meter  *meter
	visit  func(stream.Scores) // called with the scores of each piece of text; may be nil
	took   time.Duration
}

// feed feeds a text to a stream, chunk by chunk. If the method diverges, feed stops and returns the
// reason as `diverged`.
func (f *feeder) feed(
	ctx context.Context, s *stream.Stream, text []byte,
) (diverged string, err error) {
	for len(text) > 0 && diverged == "" {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		start := time.Now()
		scores := f.worker.Score(s, text)
		f.took += time.Since(start)
		text = text[len(scores.Text):]
		f.add(scores)
		start = time.Now()
		f.worker.Commit(s, scores)
		f.worker.Settle(s)
		f.took += time.Since(start)
		diverged = f.divergence(s)
	}
	if diverged == "" {
		start := time.Now()
		f.worker.End(s, func(_ []byte, scores stream.Scores) { f.add(scores) })
		f.took += time.Since(start)
		diverged = f.divergence(s)
	}
	return diverged, nil
}

// divergence returns the reason why a stream's method has diverged, or "" if it has not.
func (f *feeder) divergence(s *stream.Stream) string {
	switch bits := f.meter.tally.Bits; {
	case math.IsNaN(bits) || math.IsInf(bits, 0):
		return "a score is not a finite number"
	case s.Divergence.Count > 0:
		return fmt.Sprintf("a %s cost the network more than %d bits", tokenName(f.model),
			stream.TokenBitsMax)
	}
	return ""
}

func (f *feeder) add(scores stream.Scores) {
	f.meter.add(scores.Tokens, scores.NLL)
	if f.visit != nil {
		f.visit(scores)
	}
}

// BitsPerToken scores each text as a separate stream. The settings must be valid. It returns the
// total bits divided by the number of tokens; for a model of bytes, tokens are bytes. The result is
// +Inf if the method diverges in a text.
func BitsPerToken(
	ctx context.Context, w *stream.Worker, m *model.Model, set stream.Settings, texts [][]byte,
) (float64, error) {
	var bits, tokens float64
	for _, text := range texts {
		f := feeder{model: m, worker: w, meter: newMeter(m, nil)}
		diverged, err := f.feed(ctx, stream.New(m, set), text)
		if err != nil {
			return 0, err
		}
		if diverged != "" {
			return math.Inf(1), nil
		}
		bits, tokens = bits+f.meter.tally.Bits, tokens+float64(f.meter.tally.Tokens)
	}
	return bits / tokens, nil
}

package eval

import (
	"context"
	"math"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
)

// feed gives a text to a stream, chunk by chunk, and the scores to the meter and to visit. If the
// method diverges, feed stops and returns the reason in diverged. took is the time of scoring and
// adapting alone.
func feed(ctx context.Context, w *stream.Worker, s *stream.Stream, text []byte, m *meter, visit func(nll []float32)) (
	took time.Duration, diverged string, err error) {
	guard := guard{meter: m}
	nll := make([]float32, 0, s.Settings.Chunk)
	for len(text) > 0 && diverged == "" {
		if err := ctx.Err(); err != nil {
			return took, "", err
		}
		n := min(len(text), s.Room())
		start := time.Now()
		w.Feed(s, text[:n], func(_ []byte, scores stream.Scores) { nll = append(nll[:0], scores.NLL...) })
		took += time.Since(start)
		m.add(nll)
		visit(nll)
		text = text[n:]
		diverged = guard.check()
	}
	return took, diverged, nil
}

// BitsPerByte scores each text as a stream of its own under the settings, which must be valid, and
// returns the bits of all texts over the bytes of all texts. The result is infinite if the method
// diverges in one of them.
func BitsPerByte(ctx context.Context, w *stream.Worker, m *model.Model, set stream.Settings, texts [][]byte) (float64, error) {
	var bits, bytes float64
	for _, text := range texts {
		sum := &meter{}
		_, diverged, err := feed(ctx, w, stream.New(m, set), text, sum, func([]float32) {})
		if err != nil {
			return 0, err
		}
		if diverged != "" {
			return math.Inf(1), nil
		}
		bits, bytes = bits+sum.bits, bytes+float64(sum.bytes)
	}
	return bits / bytes, nil
}

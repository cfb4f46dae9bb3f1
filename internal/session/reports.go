package session

import (
	"time"

	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// reports tells a caller what becomes of the text of a score request, and adds it up.
type reports struct {
	engine  *engine
	s       *liveSession
	options ScoreOptions
	emit    func(Chunk) error
	sum     Summary
}

// report describes a text that was scored after a stream's and is not committed yet, and adds it to
// the summary. The stream is the session's, or a copy that learns nothing.
func (r *reports) report(st *stream.Stream, text []byte, scores stream.Scores) Chunk {
	s := r.s
	t := tokenizer.Tally{
		Bytes: int64(len(text)), Chars: int64(r.engine.model.Tokenizer.Chars(text)),
		Tokens: int64(len(scores.NLL)), Bits: scores.Bits(),
	}
	c := Chunk{
		Tally:   s.account(t, scores.BaselineBits()),
		Step:    st.Step,
		Offset:  st.Tally.Bytes,
		Updates: s.stream.Updates(),
		Written: int64(st.Written),
		FastRMS: s.rms,
	}
	if r.options.LogProbs {
		c.LogProbs = make([]float64, len(scores.NLL))
		for i, nll := range scores.NLL {
			c.LogProbs[i] = -float64(nll)
		}
	}
	r.sum.Chunks++
	r.sum.Bytes += c.Bytes
	r.sum.Chars += c.Chars
	r.sum.Tokens += c.Tokens
	r.sum.Bits = stream.AddBits(r.sum.Bits, scores.NLL)
	if s.Settings.Baseline {
		bits := stream.AddBits(valueOr(r.sum.BaselineBits, 0), scores.Baseline)
		r.sum.BaselineBits = &bits
	}
	return c
}

func valueOr(p *float64, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return *p
}

// finish completes the summary.
func (r *reports) finish(begun time.Time) {
	p := r.s.seen()
	r.sum.Offset, r.sum.Updates = p.offset, p.updates
	r.sum.Total = r.s.account(p.tally, p.baseline.Bits)
	if r.s.Settings.Baseline && r.sum.BaselineBits == nil {
		r.sum.BaselineBits = new(float64)
	}
	r.sum.Elapsed = time.Since(begun)
}

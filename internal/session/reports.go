package session

import (
	"bytes"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/lines"
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

// takeLines gives what takes in the lines that end in a chunk; nil if nobody asks for lines.
func (r *reports) takeLines(c *Chunk, how stream.Lesson) func(*lines.Line) {
	if !r.options.Lines {
		return nil
	}
	return func(l *lines.Line) {
		n := uint16(len(c.Lines))
		line := r.lineReport(l, true)
		line.Unlearnt = slices.Contains(how.Skipped, n)
		c.Lines = append(c.Lines, line)
	}
}

// lineReport is what the caller is told of a line, which has ended or is under way.
func (r *reports) lineReport(l *lines.Line, ended bool) Line {
	line := Line{
		Number: l.Number, Offset: l.Offset, Bytes: l.Bytes, Chars: l.Chars, Bits: l.Bits,
		Strangeness: l.Strangeness, Cut: l.Cut, Ended: ended,
	}
	if r.s.Settings.Baseline {
		line.BaselineBits = new(l.Baseline)
	}
	if r.options.Text {
		line.Text = bytes.Clone(l.Text)
	}
	if r.options.TokenBits {
		line.TokenBits = slices.Clone(l.Costs)
	}
	return line
}

// lineUnderWay reports the line under way at the end of a text.
func (r *reports) lineUnderWay(st *stream.Stream) {
	if r.options.Lines && r.sum.Bytes > 0 {
		st.RestOfLines(func(l *lines.Line) { r.sum.Rest = new(r.lineReport(l, false)) })
	}
}

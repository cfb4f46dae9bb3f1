package session

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// reports sends the reports of a score request to the caller, and adds up their totals.
type reports struct {
	engine  *engine
	s       *session
	options ScoreOptions
	want    detail
	emit    func(Chunk) error
	sum     Summary

	tally, baseline tokenizer.Tally
	network         float64 // bits of the network without the companion
	accepted        int64
	lines           bool
	// joined contains the incidents of the unreported lines after the last reported line.
	joined []IncidentReport
}

// report describes a text that a worker has just scored, and adds its totals to the summary. The
// text is not committed yet. Parameter st is the session's stream, or a frozen copy in a dry run.
func (r *reports) report(w *stream.Worker, st *stream.Stream, scores stream.Scores) Chunk {
	s, unknown := r.s, r.s.model.Tokenizer.Unknown()
	var tally, baseline tokenizer.Tally
	for _, t := range []*tokenizer.Tally{&tally, &r.tally} {
		t.Count(scores.Tokens, unknown, scores.NLL)
	}
	if s.Settings.Baseline {
		for _, t := range []*tokenizer.Tally{&baseline, &r.baseline} {
			t.Count(scores.Tokens, unknown, scores.Baseline)
		}
	}
	c := Chunk{
		Tally:        s.account(tally, baseline),
		Step:         st.Step,
		Offset:       st.Tally.Bytes,
		PendingBytes: st.Text.Size() + int64(len(scores.Text)) - tally.Bytes,
		Updates:      s.stream.Updates(),
		Written:      int64(st.Written),
		FastRMS:      s.rms,
		Diverged:     scores.Diverged,
	}
	switch {
	case st.ResetInChunk():
		c.FastRMS = 0
	case !finite(c.FastRMS): // JSON cannot represent infinity
		c.FastRMS = math.MaxFloat64
	}
	if scores.Diverged {
		r.sum.Divergences++
	}
	if scores.Network != nil {
		c.NetworkBits = ifFinite(scores.NetworkBits())
		r.network = stream.AddBits(r.network, scores.Network)
	}
	if r.want.logProbs {
		r.tellTokens(&c, w, st, scores)
	}
	if r.want.chunkText {
		c.Text, c.TextOffset = bytes.Clone(scores.Text), st.Offset()
	}
	r.sum.Chunks++
	r.accepted += int64(len(scores.Text))
	return c
}

// tell reports a scored text to the observer. It includes lines only if the caller asked for lines,
// not if only a watcher did.
func (r *reports) tell(c *Chunk) {
	r.engine.observer.Scored(r.s.model.id, cmp.Or(r.options.Learn, LearnTrue), c.Tally)
	if r.options.Lines {
		for i := range c.Lines {
			r.engine.observer.Line(r.s.Settings.Method, &c.Lines[i])
		}
	}
}

func (r *reports) tellTokens(
	c *Chunk, w *stream.Worker, st *stream.Stream, scores stream.Scores,
) {
	c.LogProbs, c.BaselineLogProbs = logProbsOf(scores.NLL), logProbsOf(scores.Baseline)
	if r.s.model.OfWords() {
		c.Words = &ChunkWords{
			Sizes: slices.Clone(scores.Tokens.Sizes), IDs: slices.Clone(scores.Tokens.IDs),
			After: st.Before(),
		}
	}
	if r.want.top == 0 {
		return
	}
	w.Tell(st, scores, func(t stream.Token) {
		c.Top = append(c.Top, candidates(t.LogProbs, r.want.top))
		if t.Baseline != nil {
			c.BaselineTop = append(c.BaselineTop, candidates(t.Baseline, r.want.top))
		}
	})
}

func logProbsOf(nll []float32) []float64 {
	if nll == nil {
		return nil
	}
	logProbs := make([]float64, len(nll))
	for i, v := range nll {
		logProbs[i] = -float64(v)
	}
	return logProbs
}

// ifFinite returns a pointer to v, or nil if v is not finite and so cannot be represented in JSON.
func ifFinite(v float64) *float64 {
	if !finite(v) {
		return nil
	}
	return &v
}

func (r *reports) finish(begun time.Time) {
	p := r.s.seen()
	r.sum.Offset, r.sum.Updates = p.offset, p.updates
	r.sum.PendingBytes = p.offset - p.tally.Bytes
	r.sum.Tally = r.s.account(r.tally, r.baseline)
	if r.s.Settings.HasCompanion(r.s.model.Model) {
		r.sum.NetworkBits = ifFinite(r.network)
	}
	r.sum.Total = r.s.account(p.tally, p.baseline)
	r.sum.Elapsed = time.Since(begun)
}

// takeLines returns a function that adds a finished line to the report of a chunk. It returns nil
// if neither the caller nor a watcher asks for lines.
func (r *reports) takeLines(c *Chunk, how stream.Lesson) func(*lines.Line) {
	if !r.want.lines && !r.want.records {
		return nil
	}
	ended := uint16(0)
	return func(l *lines.Line) {
		if l.Lines > 0 {
			if r.want.records {
				c.Records = append(c.Records, r.lineReport(l, true))
			}
			return
		}
		line := r.lineReport(l, true)
		line.Unlearnt = slices.Contains(how.Skipped, ended)
		ended++
		few := r.options.Lines && r.options.Incidents
		line.first, r.lines = few && !r.lines, true
		silent := !line.news && !line.first
		if r.sum.Last = nil; few {
			r.join(&line, silent)
		}
		if silent && r.want.incidents || !r.want.lines {
			if r.options.Lines {
				// The line is not in c.Lines, so the function tell does not report the line.
				r.engine.observer.Line(r.s.Settings.Method, &line)
			}
			return
		}
		c.Lines = append(c.Lines, line)
	}
}

// join collects the incidents of unreported lines, and adds them to the next reported line. If no
// line follows, they are in sum.Last, the last line of the text. Only the caller gets these
// incidents. Watchers get each line with only its own incidents.
func (r *reports) join(line *Line, silent bool) {
	all := slices.Clone(line.Incidents)
	for _, i := range r.joined {
		if !slices.ContainsFunc(all, func(o IncidentReport) bool { return o.Number == i.Number }) {
			all = append(all, i)
		}
	}
	if r.joined = nil; !silent {
		line.joined = all
		return
	}
	r.joined, r.sum.Last = all, new(*line)
	r.sum.Last.Incidents = all
}

// lineReport returns the report of a line or a record. Parameter ended is false if the line or
// record is unfinished.
func (r *reports) lineReport(l *lines.Line, ended bool) Line {
	line := Line{
		Number: l.Number, Offset: l.Offset, Bytes: l.Bytes, Chars: l.Chars, Bits: l.Bits,
		Strangeness: l.Strangeness, Cut: l.Cut, Ended: ended, Lines: l.Lines,
	}
	if ended {
		for i := range l.Incidents {
			line.Incidents = append(line.Incidents, r.s.report(&l.Incidents[i]))
			line.news = line.news || l.Incidents[i].News(l.P)
		}
	}
	line.news = line.news || line.Incidents != nil && l.P <= r.options.Threshold
	if r.s.Settings.Baseline {
		line.BaselineBits = new(l.Baseline)
	}
	told := r.want.lines && (!r.want.incidents || line.Incidents != nil) || l.Lines > 0
	if r.want.lineText && told {
		line.Text, line.Why = bytes.Clone(l.Text), l.Why()
	}
	if r.want.tokenBits {
		line.TokenBits = slices.Clone(l.Costs)
	}
	return line
}

func (r *reports) lineUnderWay(st *stream.Stream) {
	rest := st.RestOfLines
	if r.options.Records {
		rest = st.RestOfRecords
	}
	if r.options.Lines && r.accepted > 0 {
		rest(func(l *lines.Line) {
			if r.sum.Rest != nil {
				r.sum.Last = r.sum.Rest
			}
			r.sum.Rest = new(r.lineReport(l, false))
		})
	}
}

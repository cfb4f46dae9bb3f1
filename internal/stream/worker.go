package stream

import (
	"fmt"
	"math"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/lines"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// Worker advances streams of one model. It owns what they need for that and can share: threads,
// activations, gradient arenas, and the fast weights as the model computes with them. It serves
// one stream at a time, any stream, and leaves nothing of one in another. A worker that is warm
// allocates nothing.
type Worker struct {
	Exec *kernel.Exec
	// StaleKeys makes the worker keep the memory's keys and values while the fast weights that made
	// them move on: see txl.Reuse. Its streams' bits then depend on who had the worker when, so that
	// no session may be served by it. It is set before the worker's first use.
	StaleKeys bool

	model *model.Model
	seg   *txl.Segment
	base  *txl.Segment // segment of the baseline, made on first use
	chunk int          // largest number of rows of the segments
	grads Arena        // gradients of the branches
	all   Arena        // gradients of all weights, made on first use

	// The fast weights of a SparseMeta stream, the banks' M added up, and whose they are: a
	// stream's learnt, and the updates that it had made. Streams keep the banks alone, which
	// takes a third off their size; a worker that takes up another stream adds them up again.
	fast   Arena
	fastAt place

	// The streams and chunks whose rows the segments hold. Scoring goes on behind these rows
	// instead of beginning the chunk again; the bits are the same either way.
	at, baseAt place

	inputs  []int32      // what the segments have read last
	tokens  []int32      // tokens scored last
	targets []int32      // the pending tokens and those scored last
	open    []float32    // gradient of a line under way, made on first use
	ahead   *lines.Meter // lines of text that is not accepted yet, made on first use
	nll     []float32
	baseNLL []float32
}

// place is a chunk of a stream; the zero value is none.
type place struct{ stream, step uint64 }

// NewWorker returns a worker of up to threads threads; Close ends them.
func NewWorker(m *model.Model, threads int) *Worker {
	return &Worker{Exec: kernel.NewExecIn(threads, m.Arithmetic), model: m, grads: NewArena(m), fast: NewArena(m)}
}

// WorkerBytes is the memory of a worker at most: of one that has served streams of every method, in
// chunks of MaxChunk, and their baseline, and has learnt by lines from each.
func WorkerBytes(m *model.Model) int64 {
	segments := 2 * txl.SegmentBytes(m.LM.Config, 1, MaxChunk)
	return segments + 4*int64(2*m.ArenaSize()+2*m.LM.Layout.Size) + LinesBytes
}

// Close ends the worker's threads.
func (w *Worker) Close() { w.Exec.Close() }

// fit makes room for chunks of the stream.
func (w *Worker) fit(s *Stream) {
	chunk := s.Settings.Chunk
	if w.chunk != chunk {
		w.chunk, w.at = chunk, place{}
		w.seg, w.base = w.segment(), nil
		w.inputs, w.tokens, w.targets = make([]int32, 0, chunk), make([]int32, 0, chunk), make([]int32, 0, chunk)
		w.nll, w.baseNLL = make([]float32, chunk), make([]float32, chunk)
	}
	if s.Settings.Baseline && w.base == nil {
		w.base, w.baseAt = w.segment(), place{}
	}
	if s.Dynamic != nil && !s.frozen && w.all.Values == nil {
		w.all = NewArenaOfAll(w.model.LM.Layout)
	}
}

// segment makes a segment for chunks. The slow weights of a model that is served never change.
func (w *Worker) segment() *txl.Segment {
	s := txl.NewSegment(w.model.LM.Config, 1, w.chunk)
	s.SetReuse(txl.Reuse{FixedWeights: true, StaleKeys: w.StaleKeys})
	return s
}

// step returns the step of the stream's current chunk, in the worker's arrays.
func (w *Worker) step(s *Stream) Step {
	step := Step{Exec: w.Exec, Network: s.model.LM, Segment: w.seg, Memory: s.Memory}
	switch {
	case s.Fast != nil:
		step.Fast, step.Grads, step.State, step.Rule = w.sum(s), w.grads, s.Fast, s.rule()
	case s.Dynamic != nil:
		step.Fast, step.All = s.dynamic, w.all
	}
	return step
}

// baseline returns the step of the same chunk under the static model.
func (w *Worker) baseline(s *Stream) Step {
	return Step{Exec: w.Exec, Network: s.model.LM, Segment: w.base, Memory: s.BaselineMemory}
}

// sum returns the fast weights of a SparseMeta stream, its banks added up.
func (w *Worker) sum(s *Stream) Arena {
	if here := (place{s.learnt, s.Fast.Step}); w.fastAt != here {
		s.Fast.Sum(w.Exec.Vectors, w.fast.Values)
		w.fastAt = here
	}
	return w.fast
}

// Scores are the negative log-likelihoods in nats of a piece of text, one a
// token, valid until the worker's next call.
type Scores struct {
	NLL      []float32
	Baseline []float32 // under the static model; nil without a baseline
}

// Bits is the piece's information.
func (s Scores) Bits() float64         { return AddBits(0, s.NLL) }
func (s Scores) BaselineBits() float64 { return AddBits(0, s.Baseline) }

// AddBits adds nats as bits, one token after the other: a sum does not depend
// on how the tokens came in pieces.
func AddBits(sum float64, nll []float32) float64 {
	for _, v := range nll {
		sum += float64(v) / math.Ln2
	}
	return sum
}

// Score scores the next bytes of the stream, at most Room of them, and does
// not change the stream: call Commit with the same text to accept it.
func (w *Worker) Score(s *Stream, text []byte) Scores {
	if len(text) > s.Room() {
		panic(fmt.Sprintf("stream: %d bytes scored in a chunk with room for %d", len(text), s.Room()))
	}
	w.resume(s)
	w.tokens = tokenizer.Bytes{}.Encode(w.tokens[:0], text)
	w.extend(s, w.tokens)
	w.at, w.baseAt = place{}, place{} // until Commit the segments run ahead of the stream
	return w.scores(s)
}

// scores are those of w.tokens, the last that the segments were extended for.
func (w *Worker) scores(s *Stream) Scores {
	n := len(w.tokens)
	scores := Scores{NLL: w.nll[:n]}
	step := w.step(s)
	step.Score(nil, w.tokens, scores.NLL)
	if s.Cache != nil {
		w.targets = append(append(w.targets[:0], s.Pending...), w.tokens...)
		s.Cache.Mix(w.Exec, w.seg.Hidden(), w.targets, scores.NLL)
	}
	if s.Settings.Baseline {
		scores.Baseline = w.baseNLL[:n]
		baseline := w.baseline(s)
		baseline.Score(nil, w.tokens, scores.Baseline)
	}
	return scores
}

// before is the token in front of the next one.
func (w *Worker) before(s *Stream) int32 {
	if n := len(s.Pending); n > 0 {
		return s.Pending[n-1]
	}
	return s.Last
}

// resume makes the segments hold the inputs of exactly the pending tokens.
func (w *Worker) resume(s *Stream) {
	w.fit(s)
	here := place{s.id, s.Step}
	if w.at != here || w.seg.Len() != len(s.Pending) {
		step := w.step(s)
		step.Begin()
		step.Score(w.inputsOf(s.Last, s.Pending), nil, nil)
	}
	if s.Settings.Baseline && (w.baseAt != here || w.base.Len() != len(s.Pending)) {
		baseline := w.baseline(s)
		baseline.Begin()
		baseline.Score(w.inputsOf(s.Last, s.Pending), nil, nil)
	}
	w.hold(s, here)
}

// hold notes which chunk the segments hold.
func (w *Worker) hold(s *Stream, at place) {
	w.at, w.baseAt = at, place{}
	if s.Settings.Baseline {
		w.baseAt = at
	}
}

// extend makes the segments read what predicts the given targets, which follow the pending ones.
func (w *Worker) extend(s *Stream, targets []int32) {
	inputs := w.inputsOf(w.before(s), targets)
	step := w.step(s)
	step.Score(inputs, nil, nil)
	if s.Settings.Baseline {
		baseline := w.baseline(s)
		baseline.Score(inputs, nil, nil)
	}
}

// inputsOf is what a model reads to predict the targets: the token before them and all
// of them but the last.
func (w *Worker) inputsOf(before int32, targets []int32) []int32 {
	if len(targets) == 0 {
		return nil
	}
	w.inputs = append(append(w.inputs[:0], before), targets[:len(targets)-1]...)
	return w.inputs
}

// Totals are the bits of everything accepted, and those under the static model, as they will be
// when the scores are committed.
func (s *Stream) Totals(scores Scores) (bits, baseline float64) {
	return AddBits(s.Tally.Bits, scores.NLL), AddBits(s.Baseline.Bits, scores.Baseline)
}

// Commit accepts the text that Score has just scored. It moves no weights:
// Settle does, once the chunk is full.
func (w *Worker) Commit(s *Stream, text []byte, scores Scores) {
	w.CommitAs(s, text, scores, Lesson{}, nil)
}

// CommitAs is Commit for a text that is learnt in some way. It tells each, if not nil, of every
// line that ends in the text, if the stream makes lines of it. A line is valid until each returns.
func (w *Worker) CommitAs(
	s *Stream, text []byte, scores Scores, how Lesson, each func(*lines.Line),
) {
	s.beginLines()
	if s.lines != nil {
		addLines(s.lines, s.Tally.Bytes, text, scores, each)
	}
	if how.ByLine {
		s.holdLines()
	}
	if s.held != nil {
		s.held.mark(text, how)
	}
	s.Pending = tokenizer.Bytes{}.Encode(s.Pending, text)
	t := tokenizer.Tally{Bytes: int64(len(text)), Chars: int64(s.model.Tokenizer.Chars(text)), Tokens: int64(len(scores.NLL))}
	s.Tally.Add(t)
	s.Tally.Bits = AddBits(s.Tally.Bits, scores.NLL)
	if s.Settings.Baseline {
		s.Baseline.Add(t)
		s.Baseline.Bits = AddBits(s.Baseline.Bits, scores.Baseline)
	}
	w.hold(s, place{s.id, s.Step})
}

// PreviewLines tells each of every line that ends in a text that was scored and is not accepted
// yet, as CommitAs will. A line is valid until each returns.
func (w *Worker) PreviewLines(s *Stream, text []byte, scores Scores, each func(*lines.Line)) {
	s.beginLines()
	if s.lines == nil {
		return
	}
	if w.ahead == nil {
		w.ahead = new(lines.Meter)
	}
	w.ahead.CopyFrom(s.lines)
	addLines(w.ahead, s.Tally.Bytes, text, scores, each)
}

// Settle ends the chunk if it is full: the stream adapts to it, and remembers it. The chunk's
// tokens were scored before: no token's score sees the update that the token causes.
func (w *Worker) Settle(s *Stream) {
	if s.Room() > 0 {
		return
	}
	w.resume(s)
	step := w.step(s)
	w.adapt(s, &step)
	step.Remember()
	if s.Settings.Baseline {
		baseline := w.baseline(s)
		baseline.Remember()
	}
	s.Last = s.Pending[len(s.Pending)-1]
	s.Pending = s.Pending[:0]
	if s.held != nil {
		s.held.marks = s.held.marks[:0]
	}
	s.Step++
	w.goOn(s)
}

// adapt makes the stream learn from a chunk by its method: from the gradient of the chunk's mean
// loss at the effective weights, or from the chunk's hidden states.
func (w *Worker) adapt(s *Stream, step *Step) {
	switch {
	case s.Cache != nil:
		s.Cache.Append(w.seg.Hidden(), s.Pending)
	case s.frozen, s.Fast == nil && s.Dynamic == nil:
	case s.held != nil:
		w.adaptHeld(s, step)
	default:
		step.Backward(s.Pending)
		w.update(s, step)
	}
}

// update lets the gradient that Backward has computed write the stream's fast weights.
func (w *Worker) update(s *Stream, step *Step) {
	if s.Fast != nil {
		s.Written = step.Update()
		w.fastAt = place{s.learnt, s.Fast.Step}
		return
	}
	s.Dynamic.Update(w.Exec, w.all.Values)
	s.Written = len(w.all.Values)
}

// goOn takes the segments to the next chunk.
func (w *Worker) goOn(s *Stream) {
	w.hold(s, place{s.id, s.Step})
	if s.Settings.Baseline {
		baseline := w.baseline(s)
		baseline.Continue()
	}
	step := w.step(s)
	step.Continue()
}

// FeedAs scores, accepts and settles text that the chunk has room for, learnt in some way.
func (w *Worker) FeedAs(s *Stream, text []byte, how Lesson) {
	w.CommitAs(s, text, w.Score(s, text), how, nil)
	w.Settle(s)
}

// Feed scores, accepts and settles text of any length: the whole loop for
// callers that keep no log. visit, if not nil, sees every piece's scores
// before the update they cause.
func (w *Worker) Feed(s *Stream, text []byte, visit func(text []byte, scores Scores)) {
	for len(text) > 0 {
		piece := text[:min(len(text), s.Room())]
		scores := w.Score(s, piece)
		if visit != nil {
			visit(piece, scores)
		}
		w.Commit(s, piece, scores)
		w.Settle(s)
		text = text[len(piece):]
	}
}

// Read feeds text as Feed does, and tells visit of each of its tokens, in order, with the
// distribution that the token was scored under: the log-probabilities (nats) of all tokens of the
// vocabulary [V], which are valid until visit returns.
func (w *Worker) Read(s *Stream, text []byte, visit func(id int32, logProbs []float32)) {
	logProbs := make([]float32, s.model.LM.Config.Vocab)
	for len(text) > 0 {
		piece := text[:min(len(text), s.Room())]
		scores, before := w.Score(s, piece), len(s.Pending)
		for i, id := range w.tokens {
			w.distribution(s, before+i, logProbs)
			visit(id, logProbs)
		}
		w.Commit(s, piece, scores)
		w.Settle(s)
		text = text[len(piece):]
	}
}

// distribution writes the log-probabilities [V] of the token after a row of the chunk. w.targets
// are those of the rows before it, where the stream has a cache.
func (w *Worker) distribution(s *Stream, row int, logProbs []float32) {
	w.seg.LogProbs(row, 0, logProbs)
	if s.Cache != nil {
		hidden := w.seg.Hidden()[:(row+1)*w.model.LM.Config.DModel]
		s.Cache.MixAll(w.Exec, hidden, w.targets[:row], logProbs)
	}
}

// unknown stands for a target that is still to be drawn.
var unknown = []int32{-1}

// Generate samples what comes after the stream's text and feeds it to the
// stream, token by token: it tells yield of each token and its log-probability
// (nats, of the model's own distribution before temperature and truncation)
// until yield returns false. On a Frozen copy it is a completion.
func (w *Worker) Generate(s *Stream, sampler *txl.Sampler, yield func(id int32, logProb float32) bool) {
	w.Sample(s, sampler, func(id int32, logProbs []float32) bool { return yield(id, logProbs[id]) })
}

// Sample is Generate for who wants to know the whole distribution that a token was drawn from: the
// log-probabilities [V], which are valid until yield returns.
func (w *Worker) Sample(
	s *Stream, sampler *txl.Sampler, yield func(id int32, logProbs []float32) bool,
) {
	logProbs := make([]float32, s.model.LM.Config.Vocab)
	text := make([]byte, 0, 1)
	for more := true; more; {
		w.resume(s)
		last := len(s.Pending)
		w.extend(s, unknown)
		w.targets = append(w.targets[:0], s.Pending...)
		w.distribution(s, last, logProbs)
		id := sampler.Next(logProbs)
		w.tokens = append(w.tokens[:0], id)
		w.Commit(s, tokenizer.Bytes{}.Decode(text, w.tokens), w.scores(s))
		w.Settle(s)
		more = yield(id, logProbs)
	}
}

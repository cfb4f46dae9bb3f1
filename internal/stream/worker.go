package stream

import (
	"time"

	"github.com/lmserve/lmserve/internal/companion"
	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/lines"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/sparsemeta"
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

	inputs  []int32           // what the segments have read last
	tokens  tokenizer.Tokens  // tokens scored last
	falls   []int             // Scores.falls of these
	text    tokenizer.Pending // the text behind them
	targets []int32           // the pending tokens and those scored last
	open    []float32         // gradient of a line under way, made on first use
	ahead   *lines.Meter      // lines of text that is not accepted yet, made on first use
	nll     []float32
	baseNLL []float32
	netNLL  []float32

	counts       *companion.Scratch // of the streams' companions, made on first use
	network      []float32          // distribution of the network beside a companion
	logProbs     []float32          // of a whole vocabulary, made on first use
	baseLogProbs []float32          // the same under the static model
	spelt        []byte             // text of a sampled token

	before sparsemeta.Before // fast weights before an update that is measured, made on first use

	settled Settled // of the Settle under way
}

// place is a chunk of a stream; the zero value is none.
type place struct{ stream, step uint64 }

// NewWorker returns a worker of up to threads threads; Close ends them.
func NewWorker(m *model.Model, threads int) *Worker {
	return &Worker{
		Exec: kernel.NewExecIn(threads, m.Arithmetic), model: m, grads: NewArena(m), fast: NewArena(m),
		text: tokenizer.Pending{Word: make([]byte, 0, m.Tokenizer.PendingMax())},
	}
}

// WorkerBytes is the memory of a worker at most: of one that has served streams of every method, in
// chunks of MaxChunk, and their baseline, and has learnt by lines from each, and measured updates.
func WorkerBytes(m *model.Model) int64 {
	segments := 2 * txl.SegmentBytes(m.LM.Config, 1, MaxChunk)
	numbers := 2*m.ArenaSize() + 2*m.LM.Layout.Size + 3*m.LM.Config.Vocab
	return segments + 4*int64(numbers) + LinesBytes + beforeBytes(m) + companion.ScratchBytes(MaxChunk)
}

// Close ends the worker's threads.
func (w *Worker) Close() { w.Exec.Close() }

// fit makes room for chunks of the stream.
func (w *Worker) fit(s *Stream) {
	chunk := s.Settings.Chunk
	if w.chunk != chunk {
		w.chunk, w.at = chunk, place{}
		w.seg, w.base = w.segment(), nil
		w.inputs, w.targets = make([]int32, 0, chunk), make([]int32, 0, chunk)
		w.tokens, w.falls = tokenizer.NewTokens(chunk), make([]int, 0, chunk)
		w.nll, w.baseNLL = make([]float32, chunk), make([]float32, chunk)
		w.netNLL = make([]float32, chunk)
	}
	if s.Settings.Baseline && w.base == nil {
		w.base, w.baseAt = w.segment(), place{}
	}
	if s.Companion != nil && w.counts == nil {
		w.counts = companion.NewScratch(w.Exec.Vectors)
		w.network = make([]float32, w.model.LM.Config.Vocab)
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

// Before is the token in front of the next one.
func (s *Stream) Before() int32 {
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
	inputs := w.inputsOf(s.Before(), targets)
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

// Settled says when the parts of a Settle ended. Those are zero that it did not have: all of them
// where the chunk was not full, Backward and Update where nothing was learnt.
type Settled struct{ Begun, Backward, Update, Remember time.Time }

// Settle ends the chunk if it is full: the stream adapts to it, and remembers it. The chunk's
// tokens were scored before: no token's score sees the update that the token causes.
func (w *Worker) Settle(s *Stream) Settled {
	if s.Room() > 0 {
		return Settled{}
	}
	w.resume(s)
	w.settled = Settled{Begun: time.Now()}
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
	w.settled.Remember = time.Now()
	return w.settled
}

// adapt makes the stream learn from a chunk: its cache, if it has one, from the hidden states, and
// by its method from the gradient of the chunk's mean loss at the effective weights.
func (w *Worker) adapt(s *Stream, step *Step) {
	if s.Cache != nil {
		s.Cache.Append(w.seg.Hidden(), s.Pending)
	}
	switch {
	case s.frozen, s.Fast == nil && s.Dynamic == nil:
	case s.held != nil:
		w.adaptHeld(s, step)
	default:
		w.backward(step, s.Pending)
		w.update(s, step)
	}
}

// backward computes the gradient of the mean loss of a chunk's targets.
func (w *Worker) backward(step *Step, targets []int32) {
	step.Backward(targets)
	w.settled.Backward = time.Now()
}

// update lets the gradient that Backward has computed write the stream's fast weights.
func (w *Worker) update(s *Stream, step *Step) {
	defer func() { w.settled.Update = time.Now() }()
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

package stream

import (
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// Worker advances streams of one model. It owns what streams can share: threads, activations,
// gradient arenas, and the summed fast weights. It can serve any stream, one at a time, and nothing
// of one stream affects another. Once warm, a worker allocates nothing.
type Worker struct {
	Exec *kernel.Exec
	// StaleKeys makes the worker keep the memory's keys and values although the fast weights that
	// they were computed with have changed, see txl.Reuse. The bits of a stream then depend on the
	// worker's history, so a server must not set it. Set it before the worker's first use.
	StaleKeys bool

	model *model.Model
	seg   *txl.Segment
	base  *txl.Segment // segment of the static model, made on first use
	// Growers for prefixes that follow the segment and base, made on first use.
	growers [2]*txl.Grower
	chunk   int   // maximum number of rows of the segments
	grads   Arena // gradients of the branches
	all     Arena // gradients of all weights, made on first use

	// fast contains the fast weights of a SparseMeta stream, summed over its banks. fastAt
	// identifies them by the stream's `learnt` and its number of updates. Streams keep only the
	// banks, which makes streams a third smaller. A worker sums the banks again when it switches to
	// another stream.
	fast   Arena
	fastAt place

	// at is the stream and the chunk whose tokens the segments have read. Scoring continues after
	// these tokens instead of reading the chunk again; the results are bit-identical in both cases.
	at place
	// foreseen says that the arenas already contain the gradient of the chunk that the last scored
	// text completes. resume clears it, except at the end of that chunk.
	foreseen bool

	inputs  []int32           // last inputs of the segments
	tokens  tokenizer.Tokens  // the tokens of the last scored text
	falls   []int             // Scores.falls of these tokens
	text    tokenizer.Pending // text after these tokens
	targets []int32           // the pending tokens, followed by these tokens
	open    []float32         // gradient of an open line, made on first use
	along   along             // how the last scored text changes its stream
	skipped []uint16          // lines that the last scored text skips
	ahead   *lines.Meter      // lines of text that is not accepted yet, made on first use
	nll     []float32
	baseNLL []float32
	netNLL  []float32
	losses  []float32 // costs of a whole chunk's tokens

	aheadFrom int64 // offset in the stream at which the lines of ahead begin

	counts       *companion.Scratch // scratch for the streams' companions, made on first use
	networks     companion.Networks // distributions of the networks that a companion mixes
	slopes       []float32          // slopes of the last scored tokens, see mixture.go
	logits       []float32          // gradients with respect to a chunk's logits, made on first use
	logProbs     []float32          // a distribution over the vocabulary, made on first use
	baseLogProbs []float32          // a distribution of the static model, made on first use
	spelt        []byte             // text of a sampled token

	kept     []float32 // hidden states of a chunk's tokens that were not skipped, made on first use
	keptNext []int32   // the tokens that follow these states

	before sparsemeta.Before // fast weights before a measured update, made on first use

	settled Settled // times of the current Settle
}

// place identifies a chunk of a stream. The zero value identifies no chunk.
type place struct{ stream, step uint64 }

// NewWorker returns a worker with at most `threads` threads, which Close ends.
func NewWorker(m *model.Model, threads int) *Worker {
	return &Worker{
		Exec: kernel.NewExecIn(threads, m.Arithmetic), model: m, grads: NewArena(m),
		fast: NewArena(m),
		text: tokenizer.Pending{Word: make([]byte, 0, m.Tokenizer.PendingMax())},
	}
}

// WorkerBytes returns the maximum memory of a worker, in bytes. A worker reaches this maximum when
// it has served streams of every method, with chunks of MaxChunk and the static model. It must also
// have learned by lines and measured updates.
func WorkerBytes(m *model.Model) int64 {
	c := m.LM.Config
	segments := txl.SegmentBytes(c, 1, MaxChunk) + txl.BesideBytes(c, 1, MaxChunk)
	segments += txl.GrowerBytes(c, SuggestRowsMax)
	numbers := 2*m.ArenaSize() + 3*m.LM.Layout.Size + 4*c.Vocab
	numbers += MaxChunk * (c.DModel + 1) // kept and keptNext
	if !m.OfWords() {
		numbers += MaxChunk * slopesOfByte
	}
	if m.Mixture > 0 {
		numbers += MaxChunk * c.Vocab
	}
	return segments + 4*int64(numbers) + LinesBytes + beforeBytes(m) +
		companion.ScratchBytes(MaxChunk)
}

// Close ends the worker's threads.
func (w *Worker) Close() { w.Exec.Close() }

// fit allocates arrays for chunks of the stream.
func (w *Worker) fit(s *Stream) {
	chunk := s.Settings.Chunk
	if w.chunk != chunk {
		w.chunk, w.at = chunk, place{}
		w.seg, w.base = txl.NewSegment(w.model.LM.Config, 1, chunk), nil
		w.growers = [2]*txl.Grower{} // the growers refer to the old segments
		w.seg.SetReuse(w.reuse())
		w.inputs, w.targets = make([]int32, 0, chunk), make([]int32, 0, chunk)
		w.tokens, w.falls = tokenizer.NewTokens(chunk), make([]int, 0, chunk)
		w.nll, w.baseNLL = make([]float32, chunk), make([]float32, chunk)
		w.netNLL, w.losses = make([]float32, chunk), make([]float32, chunk)
	}
	if s.StaticMemory != nil && w.base == nil {
		w.base = txl.NewBeside(w.seg)
		w.base.SetReuse(w.reuse())
	}
	if s.Companion != nil && w.counts == nil {
		w.counts = companion.NewScratch(w.Exec.Vectors)
		for i := range w.networks {
			w.networks[i] = make([]float32, w.model.LM.Config.Vocab)
		}
	}
	if n := slopesOfByte * chunk; s.Companion != nil && cap(w.slopes) < n {
		w.slopes = make([]float32, 0, n)
	}
	if s.Dynamic != nil && !s.frozen && w.all.Values == nil {
		w.all = NewArenaOfAll(w.model.LM.Layout)
	}
}

// reuse returns which results the segments may keep from one chunk to the next. The slow weights of
// a served model never change.
func (w *Worker) reuse() txl.Reuse {
	return txl.Reuse{FixedWeights: true, StaleKeys: w.StaleKeys}
}

// step returns a Step for the stream's current chunk that refers to the worker's arrays.
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

// static returns the Step for the same chunk under the static model. Each of its phases must follow
// the same phase of the Step that the method step returns.
func (w *Worker) static(s *Stream) Step {
	return Step{Exec: w.Exec, Network: s.model.LM, Segment: w.base, Memory: s.StaticMemory}
}

// sum returns the fast weights of a SparseMeta stream, summed over its banks.
func (w *Worker) sum(s *Stream) Arena {
	if here := (place{s.learnt, s.Fast.Step}); w.fastAt != here {
		s.Fast.Sum(w.Exec.Vectors, w.fast.Values)
		w.fastAt = here
	}
	return w.fast
}

// resume makes the segments read the inputs of the stream's pending tokens, unless the segments
// already contain exactly these inputs.
func (w *Worker) resume(s *Stream) {
	w.fit(s)
	here := place{s.id, s.Step}
	if w.at == here && w.seg.Len() == len(s.Pending) {
		return
	}
	w.foreseen = false
	if w.at = here; w.model.Uniform {
		return
	}
	inputs := w.inputsOf(s.Last, s.Pending)
	step := w.step(s)
	step.Begin()
	step.Score(inputs, nil, nil)
	if s.StaticMemory != nil {
		static := w.static(s)
		static.Begin()
		static.Score(inputs, nil, nil)
	}
}

// extend makes the segments read the inputs of the given targets, which follow the pending ones.
func (w *Worker) extend(s *Stream, targets []int32) {
	if w.model.Uniform {
		return
	}
	inputs := w.inputsOf(s.Before(), targets)
	step := w.step(s)
	step.Score(inputs, nil, nil)
	if s.StaticMemory != nil {
		static := w.static(s)
		static.Score(inputs, nil, nil)
	}
}

// inputsOf returns the inputs that predict the targets: the token before them and all targets
// except the last.
func (w *Worker) inputsOf(before int32, targets []int32) []int32 {
	if len(targets) == 0 {
		return nil
	}
	w.inputs = append(append(w.inputs[:0], before), targets[:len(targets)-1]...)
	return w.inputs
}

// Settled contains the times at which the parts of a Settle ended. A part that did not run has the
// zero time. If the chunk was not full, no part has run. If nothing was learned, Backward and
// Update have not run. If Foresee has computed the gradient, Backward has not run.
type Settled struct{ Begun, Backward, Update, Remember time.Time }

// backward computes the gradient of the mean loss of a chunk's targets.
func (w *Worker) backward(step *Step, targets []int32) {
	step.Backward(targets)
	w.settled.Backward = time.Now()
}

// update writes the stream's fast weights from the gradient of Backward.
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

// along tracks how a text that is scored, but not accepted, changes a stream's lines, companion and
// cache. After a skipped line they are restored, so that only learned text affects the scores of
// the text after the line.
type along struct {
	// The companion that reads the text. If back is true, the line that was open at the beginning
	// of the text is skipped, and the companion is held.companion.
	companion *companion.State
	back      bool

	// If begun is true, the open line begins in this text, at the mark `line`. Otherwise
	// held.companion is the companion's state at the beginning of the open line.
	line  companion.Mark
	begun bool

	marking     // the state after the text; empty unless the stream learns by lines
	cached  int // number of positions of the cache, without positions of skipped lines
}

// beforeBytes returns the maximum size in memory, in bytes, of Worker.before.
func beforeBytes(m *model.Model) int64 {
	banks := int64(0)
	if m.Learner != nil {
		banks = int64(len(m.Learner.Settings.Gammas))
	}
	return max(2*banks*int64(m.ArenaSize()), 4*int64(m.LM.Layout.Size))
}

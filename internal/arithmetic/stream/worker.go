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

// Worker advances streams of one model, one stream at a time. A worker owns what its streams can
// share: threads, activations, gradient arenas, and the summed fast weights. One stream does not
// affect the results of another. Once all arrays are large enough, a worker allocates no memory.
type Worker struct {
	Exec *kernel.Exec
	// StaleKeys makes the worker keep outdated keys and values of the memory after an update of the
	// fast weights (see txl.Reuse). The bits of a stream then depend on the worker's history, so a
	// server must not set StaleKeys. Set StaleKeys before the worker's first use.
	StaleKeys bool

	model *model.Model
	seg   *txl.Segment
	base  *txl.Segment
	// The growers compute prefixes that follow seg and base. A grower is nil before its first use.
	growers [2]*txl.Grower
	chunk   int
	grads   Arena
	all     Arena

	// fast contains the fast weights of a SparseMeta stream, summed over its banks. fastAt
	// identifies this sum by the stream's field `learnt` and its number of updates. Streams keep
	// only the banks, which makes streams a third smaller. A worker computes the sum again when it
	// switches to another stream.
	fast   Arena
	fastAt place

	// at identifies the stream and the chunk whose tokens the segments have read. Scoring continues
	// after these tokens instead of reading the chunk again. The results are bit-identical in both
	// cases.
	at place
	// foreseen says that the arenas already contain the gradient of the chunk, including the text
	// that was scored last. resume clears foreseen if the stream is not at the end of this chunk.
	foreseen bool

	inputs  []int32
	tokens  tokenizer.Tokens
	falls   []int
	text    tokenizer.Pending
	targets []int32
	open    []float32
	along   along
	skipped []uint16
	ahead   *lines.Meter
	nll     []float32
	baseNLL []float32
	netNLL  []float32
	losses  []float32

	aheadFrom int64

	counts       *companion.Scratch
	networks     companion.Networks
	slopes       []float32
	logits       []float32
	logProbs     []float32
	baseLogProbs []float32
	spelt        []byte

	kept     []float32
	keptNext []int32

	before sparsemeta.Before

	settled Settled
}

// place identifies a chunk of a stream. The zero value identifies no chunk.
type place struct{ stream, step uint64 }

// NewWorker returns a worker with at most `threads` threads. Close ends the threads.
func NewWorker(m *model.Model, threads int) *Worker {
	return &Worker{
		Exec: kernel.NewExecIn(threads, m.Arithmetic), model: m, grads: NewArena(m),
		fast: NewArena(m),
		text: tokenizer.Pending{Word: make([]byte, 0, m.Tokenizer.PendingMax())},
	}
}

// WorkerBytes returns the maximum memory of a worker, in bytes. A worker reaches the maximum after
// it has served all methods, with chunks of MaxChunk and every optional computation.
func WorkerBytes(m *model.Model) int64 {
	c := m.LM.Config
	segments := txl.SegmentBytes(c, 1, MaxChunk) + txl.BesideBytes(c, 1, MaxChunk)
	segments += txl.GrowerBytes(c, SuggestRowsMax)
	numbers := 2*m.ArenaSize() + 3*m.LM.Layout.Size + 4*c.Vocab
	numbers += MaxChunk * (c.DModel + 1)
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

// fit makes the worker's arrays fit the stream's chunk size.
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

// reuse returns which results a segment may keep for the next chunk. In a server the slow weights
// never change, so FixedWeights is true.
func (w *Worker) reuse() txl.Reuse {
	return txl.Reuse{FixedWeights: true, StaleKeys: w.StaleKeys}
}

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

// static returns the Step of the static model for the current chunk. Callers must call each phase
// first on the Step of the adaptive model, then on this Step.
func (w *Worker) static(s *Stream) Step {
	return Step{Exec: w.Exec, Network: s.model.LM, Segment: w.base, Memory: s.StaticMemory}
}

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

// extend makes the segments read the inputs of targets that follow the pending tokens.
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

// inputsOf returns the inputs that predict the targets: the token before the targets and all
// targets except the last.
func (w *Worker) inputsOf(before int32, targets []int32) []int32 {
	if len(targets) == 0 {
		return nil
	}
	w.inputs = append(append(w.inputs[:0], before), targets[:len(targets)-1]...)
	return w.inputs
}

// Settled contains the times at which the parts of a call of Settle ended. A part that did not run
// has the zero time. If the chunk was not full, no part ran. If nothing was learned, Backward and
// Update did not run. If Foresee had already computed the gradient, Backward did not run.
type Settled struct{ Begun, Backward, Update, Remember time.Time }

func (w *Worker) backward(step *Step, targets []int32) {
	step.Backward(targets)
	w.settled.Backward = time.Now()
}

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

// along tracks how scored text changes a stream's lines, companion and cache before the text is
// accepted. The changes of a skipped line are undone, so that only learned text affects later
// scores.
type along struct {
	// companion is the companion that reads the text. If back is true, the line that was open at
	// the beginning of the text is skipped, and companion is held.companion.
	companion *companion.State
	back      bool

	// If begun is true, the unfinished line begins in the scored text, at the mark `line`.
	// Otherwise held.companion is the companion's state before the unfinished line.
	line  companion.Mark
	begun bool

	marking
	cached int // number of positions in the cache, without those of skipped lines
}

func beforeBytes(m *model.Model) int64 {
	banks := int64(0)
	if m.Learner != nil {
		banks = int64(len(m.Learner.Settings.Gammas))
	}
	return max(2*banks*int64(m.ArenaSize()), 4*int64(m.LM.Layout.Size))
}

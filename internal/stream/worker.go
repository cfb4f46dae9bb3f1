package stream

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

var nextID atomic.Uint64

// Worker is what advances streams of one model: threads, activations, gradient
// arenas, and the fast weights as the model computes with them. It serves one stream
// at a time, any stream, and leaves nothing of one in another. Once warm it allocates
// nothing.
type Worker struct {
	Exec *kernel.Exec

	model *model.Model
	seg   *txl.Segment
	base  *txl.Segment // the baseline's, made on first use
	chunk int          // rows of the segments
	grads gradients    // of the branches
	all   gradients    // of all weights, made on first use

	// The fast weights of a SparseMeta stream, the banks' M added up, and whose they are:
	// a stream's learnt, and the updates it had made. No stream has them itself, which
	// takes a third off its size; a worker that takes up another adds them up again.
	fast   []float32
	views  txl.Fast
	fastAt place

	// What the segments hold: scoring goes on from there instead of from the chunk's
	// beginning. Same bits either way.
	at, baseAt place

	inputs  []int32 // fed to the segments last
	tokens  []int32 // scored last
	targets []int32 // the pending tokens and those
	nll     []float32
	baseNLL []float32
}

// place is the stream and chunk whose first rows a segment holds; the zero value is
// none.
type place struct{ stream, step uint64 }

// gradients is an arena, and the form in which txl fills it.
type gradients struct {
	arena []float32
	views txl.Grads
}

// NewWorker returns a worker of up to threads threads; Close ends them.
func NewWorker(m *model.Model, threads int) *Worker {
	w := &Worker{Exec: kernel.NewExecIn(threads, m.Arithmetic), model: m}
	w.grads.arena = make([]float32, m.ArenaSize())
	w.grads.views = m.Views(w.grads.arena)
	w.fast = make([]float32, m.ArenaSize())
	w.views = m.Views(w.fast)
	return w
}

// Close ends the worker's threads.
func (w *Worker) Close() { w.Exec.Close() }

// fit makes room for chunks of the stream.
func (w *Worker) fit(s *Stream) {
	chunk := s.Settings.Chunk
	if w.chunk != chunk {
		w.chunk, w.at = chunk, place{}
		w.seg, w.base = txl.NewSegment(w.model.LM.Config, 1, chunk), nil
		w.inputs, w.tokens, w.targets = make([]int32, 0, chunk), make([]int32, 0, chunk), make([]int32, 0, chunk)
		w.nll, w.baseNLL = make([]float32, chunk), make([]float32, chunk)
	}
	if s.Settings.Baseline && w.base == nil {
		w.base, w.baseAt = txl.NewSegment(w.model.LM.Config, 1, chunk), place{}
	}
	if s.Dynamic != nil && !s.frozen && w.all.arena == nil {
		w.all.arena = make([]float32, w.model.LM.Layout.Size)
		w.all.views = w.model.LM.Layout.Slices(w.all.arena)
	}
}

// Scores are the negative log-likelihoods in nats of a piece of text, one a
// token, valid until the worker's next call.
type Scores struct {
	NLL      []float32
	Baseline []float32 // under the static model; nil without a baseline
}

// Bits is the piece's information.
func (s Scores) Bits() float64         { return addBits(0, s.NLL) }
func (s Scores) BaselineBits() float64 { return addBits(0, s.Baseline) }

// addBits adds nats as bits, one token after the other: a sum does not depend
// on how the tokens came in pieces.
func addBits(sum float64, nll []float32) float64 {
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
	w.tokens = s.model.Tokenizer.Encode(w.tokens[:0], text)
	w.extend(s, w.before(s), w.tokens)
	w.at, w.baseAt = place{}, place{} // until Commit the segments run ahead of the stream
	return w.scores(s)
}

// scores reads off the scores of w.tokens, which follow the pending ones.
func (w *Worker) scores(s *Stream) Scores {
	from, n := len(s.Pending), len(w.tokens)
	scores := Scores{NLL: w.nll[:n]}
	w.seg.NLL(from, w.tokens, scores.NLL)
	if s.Cache != nil {
		w.targets = append(append(w.targets[:0], s.Pending...), w.tokens...)
		s.Cache.Mix(w.Exec, w.seg.Hidden(), w.targets, scores.NLL)
	}
	if s.Settings.Baseline {
		scores.Baseline = w.baseNLL[:n]
		w.base.NLL(from, w.tokens, scores.Baseline)
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
		w.seg.Begin(w.Exec, s.model.LM, w.fastWeights(s), s.Memory)
		w.seg.Extend(w.Exec, w.inputsOf(s.Last, s.Pending))
	}
	if s.Settings.Baseline && (w.baseAt != here || w.base.Len() != len(s.Pending)) {
		w.base.Begin(w.Exec, s.model.LM, nil, s.BaselineMemory)
		w.base.Extend(w.Exec, w.inputsOf(s.Last, s.Pending))
	}
	w.hold(s, here)
}

// fastWeights are those that the stream's model adds to the slow ones, nil if it has none.
func (w *Worker) fastWeights(s *Stream) txl.Fast {
	if s.Fast == nil {
		return s.views
	}
	if here := (place{s.learnt, s.Fast.Step}); w.fastAt != here {
		s.Fast.Sum(w.Exec.Vectors, w.fast)
		w.fastAt = here
	}
	return w.views
}

// hold notes what the segments hold.
func (w *Worker) hold(s *Stream, at place) {
	w.at, w.baseAt = at, place{}
	if s.Settings.Baseline {
		w.baseAt = at
	}
}

// extend feeds the inputs of the given targets.
func (w *Worker) extend(s *Stream, before int32, targets []int32) {
	inputs := w.inputsOf(before, targets)
	w.seg.Extend(w.Exec, inputs)
	if s.Settings.Baseline {
		w.base.Extend(w.Exec, inputs)
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
	return addBits(s.Tally.Bits, scores.NLL), addBits(s.Baseline.Bits, scores.Baseline)
}

// Commit accepts the text that Score has just scored. It moves no weights:
// Settle does, once the chunk is full.
func (w *Worker) Commit(s *Stream, text []byte, scores Scores) {
	s.Pending = s.model.Tokenizer.Encode(s.Pending, text)
	t := tokenizer.Tally{Bytes: int64(len(text)), Chars: int64(s.model.Tokenizer.Chars(text)), Tokens: int64(len(scores.NLL))}
	s.Tally.Add(t)
	s.Tally.Bits = addBits(s.Tally.Bits, scores.NLL)
	if s.Settings.Baseline {
		s.Baseline.Add(t)
		s.Baseline.Bits = addBits(s.Baseline.Bits, scores.Baseline)
	}
	w.hold(s, place{s.id, s.Step})
}

// Settle ends the chunk if it is full: adaptation, new memory. The chunk was
// scored before: no token's score sees the update it causes.
func (w *Worker) Settle(s *Stream) {
	if s.Room() > 0 {
		return
	}
	w.resume(s)
	w.adapt(s)
	w.seg.Remember(s.Memory)
	if s.Settings.Baseline {
		w.base.Remember(s.BaselineMemory)
	}
	s.Last = s.Pending[len(s.Pending)-1]
	s.Pending = s.Pending[:0]
	s.Step++
	w.goOn(s)
}

// adapt is what the method does after a chunk: from the gradient of its mean loss
// at the effective weights, or from its hidden states.
func (w *Worker) adapt(s *Stream) {
	switch {
	case s.Cache != nil:
		s.Cache.Append(w.seg.Hidden(), s.Pending)
	case s.frozen:
	case s.Fast != nil:
		w.seg.Backward(w.Exec, s.Pending, w.grads.views)
		s.Written = s.Fast.Update(w.Exec, s.model.Tables, s.Settings.Adapt, s.model.Learner.Scale, w.grads.arena, w.fast)
		w.fastAt = place{s.learnt, s.Fast.Step}
	case s.Dynamic != nil:
		w.seg.Backward(w.Exec, s.Pending, w.all.views)
		s.Dynamic.Update(w.Exec, w.all.arena)
		s.Written = len(w.all.arena)
	}
}

// goOn takes the segments to the next chunk.
func (w *Worker) goOn(s *Stream) {
	w.hold(s, place{s.id, s.Step})
	if s.Settings.Baseline {
		w.base.Continue(w.Exec)
	}
	w.seg.Continue(w.Exec)
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

// unknown stands for a target that is still to be drawn.
var unknown = []int32{-1}

// Generate samples what comes after the stream's text and feeds it to the
// stream, token by token: it tells yield of each token and its log-probability
// (nats, of the model's own distribution before temperature and truncation)
// until yield returns false. On a Frozen copy it is a completion.
func (w *Worker) Generate(s *Stream, sampler *txl.Sampler, yield func(id int32, logProb float32) bool) {
	logProbs := make([]float32, s.model.LM.Config.Vocab)
	text := make([]byte, 0, 1)
	for more := true; more; {
		w.resume(s)
		last := len(s.Pending)
		w.extend(s, w.before(s), unknown)
		w.seg.LogProbs(last, 0, logProbs)
		if s.Cache != nil {
			s.Cache.MixAll(w.Exec, w.seg.Hidden(), s.Pending, logProbs)
		}
		id := sampler.Next(logProbs)
		w.tokens = append(w.tokens[:0], id)
		w.Commit(s, s.model.Tokenizer.Decode(text, w.tokens), w.scores(s))
		w.Settle(s)
		more = yield(id, logProbs[id])
	}
}

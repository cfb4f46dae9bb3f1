package stream

import (
	"math"
	"time"
)

// Settle ends the chunk if it is full: the stream adapts to it, and remembers it. The chunk's
// tokens were scored before: no token's score sees the update that the token causes.
func (w *Worker) Settle(s *Stream) Settled {
	if s.Room() > 0 {
		return Settled{}
	}
	w.resume(s)
	w.settled = Settled{Begun: time.Now()}
	if !w.model.Uniform {
		step := w.step(s)
		w.adapt(s, &step)
		step.Remember()
	}
	if s.StaticMemory != nil {
		static := w.static(s)
		static.Remember()
	}
	s.Last = s.Pending[len(s.Pending)-1]
	s.Pending, s.slopes = s.Pending[:0], s.slopes[:0]
	if s.held != nil {
		s.held.marks = s.held.marks[:0]
	}
	s.Step++
	w.foreseen = false
	w.goOn(s)
	w.settled.Remember = time.Now()
	return w.settled
}

// adapt makes the stream learn from a chunk: its cache, if it has one, from the hidden states, and
// by its method from the gradient of the chunk's mean loss at the effective weights: of the
// network's own, or of the mixture's.
func (w *Worker) adapt(s *Stream, step *Step) {
	if s.Cache != nil {
		w.remember(s)
	}
	switch {
	case s.frozen, s.Fast == nil && s.Dynamic == nil:
	case s.ResetInChunk():
		w.pass(s)
	case s.held != nil:
		w.ofMixture(s, step, s.Pending, s.slopes)
		w.adaptHeld(s, step)
	case w.foreseen || w.gradient(s, step, s.Pending, s.slopes):
		w.update(s, step)
	default:
		w.pass(s)
	}
}

// gradient computes the gradient of a whole chunk's targets [n], whose slopes are [n,8], unless it
// teaches nothing.
func (w *Worker) gradient(s *Stream, step *Step, targets []int32, slopes []float32) (learns bool) {
	if !w.teaches(s, targets) {
		return false
	}
	w.ofMixture(s, step, targets, slopes)
	w.backward(step, targets)
	return true
}

// Foresee computes the gradient that Settle needs once the text that was just scored is accepted,
// if it fills the chunk: there may be time for it while the text is made durable. It changes
// nothing of the stream, and the bits are the same without it. It reports whether it has computed
// the gradient; where it has not, because there is nothing to learn or more to it, Settle does all
// of the work.
func (w *Worker) Foresee(s *Stream, scores Scores) bool {
	learns := !s.frozen && (s.Fast != nil || s.Dynamic != nil)
	more := s.Cache != nil || s.held != nil || scores.Lesson.ByLine
	reset := scores.Diverged || s.ResetInChunk()
	if !learns || more || reset || len(scores.Tokens.IDs) < s.Room() {
		return false
	}
	targets := append(append(w.targets[:0], s.Pending...), scores.Tokens.IDs...)
	step := w.step(s)
	w.foreseen = w.gradient(s, &step, targets, append(s.slopes, w.slopes...)) // what arrive appends
	return w.foreseen
}

// teaches tells whether the chunk is worth a backward pass and an update: the gradient of a chunk
// that the network has foretold is small, and in a log most are. Beside a companion, which counts
// the chunk all the same, it is not missed; without one it is. The loss is that of the whole chunk
// at the weights before the update, whatever the pieces it was scored in.
func (w *Worker) teaches(s *Stream, targets []int32) bool {
	if s.Settings.SkipBelow == 0 || s.Fast == nil || s.Companion == nil {
		return true
	}
	losses := w.losses[:len(targets)]
	w.seg.NLL(0, targets, losses)
	sum := 0.0
	for _, nats := range losses {
		sum += float64(nats)
	}
	return sum >= s.Settings.SkipBelow*math.Ln2*float64(len(losses))
}

// goOn takes the segments to the next chunk.
func (w *Worker) goOn(s *Stream) {
	if w.at = (place{s.id, s.Step}); w.model.Uniform {
		return
	}
	step := w.step(s)
	step.Continue()
	if s.StaticMemory != nil {
		static := w.static(s)
		static.Continue()
	}
}

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
	step := w.step(s)
	w.adapt(s, &step)
	step.Remember()
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
	case s.held != nil:
		w.ofMixture(s, step)
		w.adaptHeld(s, step)
	case !w.teaches(s):
		w.pass(s)
	default:
		w.ofMixture(s, step)
		w.backward(step, s.Pending)
		w.update(s, step)
	}
}

// teaches tells whether the chunk is worth a backward pass and an update: the gradient of a chunk
// that the network has foretold is small, and in a log most are. Beside a companion, which counts
// the chunk all the same, it is not missed; without one it is. The loss is that of the whole chunk
// at the weights before the update, whatever the pieces it was scored in.
func (w *Worker) teaches(s *Stream) bool {
	if s.Settings.SkipBelow == 0 || s.Fast == nil || s.Companion == nil {
		return true
	}
	losses := w.losses[:len(s.Pending)]
	w.seg.NLL(0, s.Pending, losses)
	sum := 0.0
	for _, nats := range losses {
		sum += float64(nats)
	}
	return sum >= s.Settings.SkipBelow*math.Ln2*float64(len(losses))
}

// goOn takes the segments to the next chunk.
func (w *Worker) goOn(s *Stream) {
	w.at = place{s.id, s.Step}
	step := w.step(s)
	step.Continue()
	if s.StaticMemory != nil {
		static := w.static(s)
		static.Continue()
	}
}

package stream

import (
	"math"
	"time"
)

// Settle ends a full chunk: the stream adapts to the chunk and appends it to the memory. If the
// chunk is not full, Settle does nothing. The chunk's tokens were scored before, so a token cannot
// affect its own score.
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

// adapt makes the stream learn a chunk. A cache learns the chunk's hidden states. Fast weights
// learn from the gradient of the chunk's mean loss at the effective weights. The loss is the
// network's own or the mixture's.
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

// gradient computes the gradient of a whole chunk with targets [n] and slopes [n,8]. If the chunk
// is not worth learning (see teaches), gradient computes nothing and returns false.
func (w *Worker) gradient(s *Stream, step *Step, targets []int32, slopes []float32) (learns bool) {
	if !w.teaches(s, targets) {
		return false
	}
	w.ofMixture(s, step, targets, slopes)
	w.backward(step, targets)
	return true
}

// Foresee computes the gradient for Settle in advance, before the scored text is accepted, if the
// text fills the chunk. A server calls Foresee while it makes the text durable. The stream and its
// later results do not change. Foresee reports whether it has computed the gradient; otherwise
// Settle computes it.
func (w *Worker) Foresee(s *Stream, scores Scores) bool {
	learns := !s.frozen && (s.Fast != nil || s.Dynamic != nil)
	more := s.Cache != nil || s.held != nil || scores.Lesson.ByLine
	reset := scores.Diverged || s.ResetInChunk()
	if !learns || more || reset || len(scores.Tokens.IDs) < s.Room() {
		return false
	}
	targets := append(append(w.targets[:0], s.Pending...), scores.Tokens.IDs...)
	step := w.step(s)
	// arrive will append these slopes to s.slopes
	w.foreseen = w.gradient(s, &step, targets, append(s.slopes, w.slopes...))
	return w.foreseen
}

// teaches reports whether the chunk is worth a backward pass and an update. A chunk that the
// network predicts well, such as most chunks of a log, has a small gradient. The companion counts
// skipped chunks, too, so skipping costs little. Without a companion, every chunk is learned. The
// decision uses the loss of the whole chunk before the update, so the division of the text into
// pieces has no influence.
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

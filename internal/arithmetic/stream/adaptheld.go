package stream

import "github.com/lmserve/lmserve/internal/arithmetic/kernel"

// adaptHeld updates the weights of a stream that learns by lines, at the end of a chunk. It
// computes two gradients at the old weights: one for the learned tokens, one for the tokens of the
// open line.
func (w *Worker) adaptHeld(s *Stream, step *Step) {
	h, gradient := s.held, w.grads.Values
	if s.Dynamic != nil {
		gradient = w.all.Values
	}
	open, opens := h.marked(w.targets[:0], s.Pending, tokenOpen)
	if opens {
		w.backward(step, open)
		w.open = append(w.open[:0], gradient...)
	}
	learnt, learns := h.marked(w.targets[:0], s.Pending, tokenLearnt)
	if learns || h.line[lineCarries] == carriesDue {
		w.backward(step, learnt)
		if h.line[lineCarries] == carriesDue {
			addTo(w.Exec, gradient, h.gradient)
		}
		w.update(s, step)
	} else {
		w.pass(s)
	}
	switch {
	case !opens:
		h.line[lineCarries] = carriesNothing
	case h.line[lineCarries] == carriesOpen:
		addTo(w.Exec, h.gradient, w.open)
	default:
		copy(h.gradient, w.open)
		h.line[lineCarries] = carriesOpen
	}
}

func addTo(x *kernel.Exec, to, from []float32) { x.Axpy(to, 1, from) }

// pass ends a chunk without an update.
func (w *Worker) pass(s *Stream) {
	s.Written = 0
	if s.Fast != nil {
		s.Fast.Step++ // Step counts chunks, with or without an update
		w.fastAt = place{s.learnt, s.Fast.Step}
	}
}

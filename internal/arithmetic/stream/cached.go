package stream

// This file combines a stream's cache with its network. In a stream that learns by lines, the cache
// contains the learned tokens, then the tokens of the open line. If the line is skipped, its tokens
// are removed.

// mixCached replaces the network's losses of the scored tokens from:to, in nll, by the losses of
// the mixture of network and cache.
func (w *Worker) mixCached(s *Stream, from, to int, nll []float32) {
	end := len(s.Pending) + to
	hidden, next := w.unskipped(w.targets[:end], end)
	w.withCache(s, func() { s.Cache.Mix(w.Exec, hidden, next, nll[from:to]) })
}

// mixAllCached replaces logProbs, the network's distribution after a row of the chunk, by the
// mixture of network and cache.
func (w *Worker) mixAllCached(s *Stream, row int, logProbs []float32) {
	hidden, next := w.unskipped(w.targets[:row], row+1)
	w.withCache(s, func() { s.Cache.MixAll(w.Exec, hidden, next, logProbs) })
}

// withCache calls mix while the cache lacks the tokens of lines that the scored text skips.
func (w *Worker) withCache(s *Stream, mix func()) {
	all := s.Cache.Len
	s.Cache.Len = w.along.cached
	mix()
	s.Cache.Len = all
}

// unskipped returns the hidden states of the chunk's first rows and the tokens that follow them,
// without skipped tokens.
func (w *Worker) unskipped(targets []int32, rows int) (hidden []float32, next []int32) {
	width, marks := w.model.LM.Config.DModel, w.along.marks
	hidden = w.seg.Hidden()[:rows*width]
	if trailing(marks, tokenLearnt) == len(marks) {
		return hidden, targets
	}
	w.kept, w.keptNext = w.kept[:0], w.keptNext[:0]
	for i := range rows {
		if i < len(marks) && marks[i] == tokenSkipped {
			continue
		}
		w.kept = append(w.kept, hidden[i*width:(i+1)*width]...)
		if i < len(targets) {
			w.keptNext = append(w.keptNext, targets[i])
		}
	}
	return w.kept, w.keptNext
}

// remember appends the chunk to the cache, without skipped tokens.
func (w *Worker) remember(s *Stream) {
	if s.held == nil {
		s.Cache.Append(w.seg.Hidden(), s.Pending)
		return
	}
	w.along.marks = append(w.along.marks[:0], s.held.marks...)
	hidden, next := w.unskipped(s.Pending, len(s.Pending))
	open := trailing(s.held.marks, tokenOpen)
	learnt, width := len(next)-open, w.model.LM.Config.DModel
	if learnt > 0 {
		s.Cache.Append(hidden[:learnt*width], next[:learnt])
	}
	s.Cache.Open(hidden[learnt*width:], next[learnt:])
	s.held.line[lineCached] += int32(open)
}

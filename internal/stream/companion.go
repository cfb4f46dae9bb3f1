package stream

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/companion"
	"github.com/lmserve/lmserve/weights"
)

// This file puts a stream's companion beside its network: what is scored, sampled and told of is
// then their mixture. The fast weights learn from the network's own loss.

// mixed computes the mixture's losses of the tokens that are scored, and the network's own. The
// companion goes on along them, and back: Commit takes it forth.
func (w *Worker) mixed(s *Stream, nll, network []float32) {
	w.counts.Begin(s.Companion)
	for i, id := range w.tokens.IDs {
		w.ofModel(s, len(s.Pending)+i, w.network)
		network[i] = -w.network[id]
		nll[i] = w.counts.Score(s.Companion, companion.Networks{w.network}, byte(id))
	}
	w.counts.Back(s.Companion)
}

// accept takes the companion behind the tokens that were scored last.
func (w *Worker) accept(s *Stream) {
	if s.Companion != nil {
		w.counts.Forth(s.Companion)
	}
}

// readCompanion reads the state of the companion, if the stream has one.
func (s *Stream) readCompanion(f *weights.Stored) error {
	if s.Companion == nil {
		return nil
	}
	t, ok := f.Tensor(tensorCompanion)
	if !ok {
		return fmt.Errorf("tensor %q is missing", tensorCompanion)
	}
	set := s.Companion.Settings()
	data, err := readBytes(t, int(companion.EncodedBytes(set)))
	if err != nil {
		return err
	}
	read, err := companion.Decode(set, data)
	if err == nil && read.Length() != uint64(s.Offset()) {
		err = fmt.Errorf("its text has %d bytes, expected %d, those of the stream",
			read.Length(), s.Offset())
	}
	if err != nil {
		return fmt.Errorf("tensor %q: %w", tensorCompanion, err)
	}
	s.Companion = read
	return nil
}

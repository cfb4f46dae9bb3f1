package stream

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/companion"
	"github.com/lmserve/lmserve/weights"
)

// This file puts a stream's companion beside its network, or beside two, the one that adapts and the
// static one: what is scored, sampled and told of is then their mixture. The fast weights learn from
// the network's own loss.

// mixed replaces the network's losses of the tokens that are scored by the mixture's. The companion
// goes on along them, and back: Commit takes it forth.
func (w *Worker) mixed(s *Stream, nll []float32) {
	w.counts.Begin(s.Companion)
	for i, id := range w.tokens.IDs {
		w.ofNetworks(s, len(s.Pending)+i)
		nll[i] = w.counts.Score(s.Companion, w.networks, byte(id))
	}
	w.counts.Back(s.Companion)
}

// ofNetworks sets w.networks to the distributions of the token after a row of the chunk.
func (w *Worker) ofNetworks(s *Stream, row int) {
	w.ofModel(s, row, w.networks[0])
	if s.Companion.Settings().Networks > 1 {
		w.base.LogProbs(row, 0, w.networks[1])
	}
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

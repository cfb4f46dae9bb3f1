package stream

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/weights"
)

// This file says which companions of a stream a snapshot has, and restores them.

// beforeLine is the companion before the line under way that is learnt by lines; nil if there is
// none, or no companion.
func (s *Stream) beforeLine() *companion.State {
	if s.held == nil || s.held.line[lineBytes] == 0 {
		return nil
	}
	return s.held.companion
}

// named is a companion and the tensor it is stored as.
type named struct {
	name  string
	state *companion.State
}

// companions are those that a snapshot has.
func (s *Stream) companions() (all []named) {
	if s.Companion != nil {
		all = append(all, named{tensorCompanion, s.Companion})
	}
	if before := s.beforeLine(); before != nil {
		all = append(all, named{tensorBefore, before})
	}
	return all
}

// readCompanions reads the states of the companions that the stream has. A snapshot of a version in
// which skipped lines taught the companion has none of before the line under way: what was read of
// the line is learnt then.
func (s *Stream) readCompanions(f *weights.Stored) (err error) {
	if s.Companion == nil {
		return nil
	}
	set := s.Companion.Settings()
	if s.Companion, err = readCompanion(f, tensorCompanion, set); err != nil ||
		s.beforeLine() == nil {
		return err
	}
	if _, ok := f.Tensor(tensorBefore); !ok {
		s.held.companion.CopyFrom(s.Companion)
		return nil
	}
	s.held.companion, err = readCompanion(f, tensorBefore, set)
	return err
}

// checkCompanions compares the lengths of the companions' texts with that of the stream's, some of
// which may have been skipped.
func (s *Stream) checkCompanions(f *weights.Stored) error {
	if s.Companion == nil {
		return nil
	}
	found, most := s.Companion.Length(), uint64(s.Offset())
	if found > most || found < most && s.held == nil {
		return fmt.Errorf("tensor %q: its text has %d bytes, expected %d, those of the stream",
			tensorCompanion, found, most)
	}
	if _, ok := f.Tensor(tensorBefore); !ok {
		return nil
	}
	before, under := s.held.companion.Length(), uint64(s.held.line[lineBytes])
	if since := found - before; before > found || since < under || since > under &&
		under <= HeldMax {
		return fmt.Errorf(
			"tensor %q: its text has %d bytes, expected %d, without the line under way",
			tensorBefore, before, found-under)
	}
	return nil
}

// readCompanion reads a state with these settings.
func readCompanion(
	f *weights.Stored, name string, set companion.Settings,
) (*companion.State, error) {
	t, ok := f.Tensor(name)
	if !ok {
		return nil, fmt.Errorf("tensor %q is missing", name)
	}
	data, err := readBytes(t, int(companion.EncodedBytes(set)))
	if err != nil {
		return nil, err
	}
	state, err := companion.Decode(set, data)
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	return state, nil
}

package stream

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/weights"
)

// beforeLine returns the companion's state at the beginning of the open line, or nil if no line is
// open or the stream has no companion.
func (s *Stream) beforeLine() *companion.State {
	if s.held == nil || s.held.line[lineBytes] == 0 {
		return nil
	}
	return s.held.companion
}

type named struct {
	name  string
	state *companion.State
}

func (s *Stream) companions() (all []named) {
	if s.Companion != nil {
		all = append(all, named{tensorCompanion, s.Companion})
	}
	if before := s.beforeLine(); before != nil {
		all = append(all, named{tensorBefore, before})
	}
	return all
}

// readCompanions reads the companion states from a snapshot. Old snapshots lack the state before
// the open line; the open line then counts as learned.
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

// checkCompanions returns an error if a companion has read more text than the stream. A companion
// may have read less only if the stream learns by lines, because companions do not read skipped
// lines.
func (s *Stream) checkCompanions(f *weights.Stored) error {
	if s.Companion == nil {
		return nil
	}
	found, most := s.Companion.Length(), uint64(s.Offset())
	if found > most || found < most && s.held == nil {
		return fmt.Errorf("tensor %q: the companion has read %d bytes, expected %d, the "+
			"length of the stream",
			tensorCompanion, found, most)
	}
	if _, ok := f.Tensor(tensorBefore); !ok {
		return nil
	}
	before, under := s.held.companion.Length(), uint64(s.held.line[lineBytes])
	if since := found - before; before > found || since < under || since > under &&
		under <= HeldMax {
		return fmt.Errorf(
			"tensor %q: the companion has read %d bytes, expected %d, the length of the "+
				"stream without the unfinished line",
			tensorBefore, before, found-under)
	}
	return nil
}

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

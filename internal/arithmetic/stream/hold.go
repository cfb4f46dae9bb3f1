package stream

import (
	"fmt"
)

// checkHeld returns an error if the restored state of learning by lines is inconsistent. Parameter
// carries says whether the snapshot contains a gradient that is carried to a later chunk.
func (s *Stream) checkHeld(carries bool) error {
	if s.Cache == nil {
		return s.held.check(carries, s.OfWords())
	}
	open, under := int(s.held.line[lineCached]), int(s.held.line[lineBytes])
	most := min(s.Cache.Len, cacheRoom)
	if under == 0 || under > HeldMax {
		most = 0
	}
	if open > most {
		return fmt.Errorf("tensor %q, element %d is %d, expected 0 to %d", tensorHeld, lineCached,
			open, most)
	}
	whole := int64(s.Step) * int64(s.Settings.Chunk)
	if n := int64(min(s.Settings.Cache.Size+open, int(whole))); int64(s.Cache.Len) > n {
		return fmt.Errorf("tensor %q has %d elements, expected at most %d", tensorNext, s.Cache.Len,
			n)
	}
	return s.held.check(carries, s.OfWords())
}

func (s *Stream) lineNumbers() []int32 {
	if s.Cache == nil {
		return s.held.line[:lineNumbers]
	}
	return s.held.line[:]
}

// holdLines prepares the stream to learn by lines. Pending tokens count as learned.
func (s *Stream) holdLines() {
	if s.held == nil {
		s.held = &held{
			marking:  marking{marks: make([]int32, len(s.Pending), s.Settings.Chunk)},
			gradient: make([]float32, heldSize(s.model, s.Settings)),
		}
		if s.Companion != nil {
			s.held.companion = s.Companion.Clone()
		}
		if s.Cache != nil {
			s.Cache.Reserve(cacheRoom)
		}
	}
}

package stream

// Ground identifies the state of a stream from which a Frozen copy is made. Frozen copies with the
// same Ground that have read the same text are equal to the bit. A Ground is valid within one
// process.
type Ground struct {
	stream, step uint64
	offset       int64
}

// Ground returns the Ground of the stream's present state.
func (s *Stream) Ground() Ground { return Ground{s.id, s.Step, s.Offset()} }

// Shelved returns a copy of s, which must be a Frozen copy, without the fast weights of the
// original stream. The returned stream stays valid when the original changes or ends. Only Resumed
// can use it.
func (s *Stream) Shelved() *Stream {
	f := s.Frozen()
	f.Fast, f.Dynamic, f.dynamic = nil, nil, Arena{}
	return f
}

// Resumed returns a Frozen copy of s that has read the text of a Shelved copy. The Shelved copy
// must have been made from a stream with the same Ground as s.
func (s *Stream) Resumed(shelved *Stream) *Stream {
	f := shelved.Frozen()
	if f.Divergence == s.Divergence {
		f.Fast, f.Dynamic, f.dynamic, f.learnt = s.Fast, s.Dynamic, s.dynamic, s.learnt
	}
	return f
}

package stream

// Ground identifies the state from which Frozen copies of a stream read on. Copies of the same
// Ground that have read the same text are equal to the bit. It is valid within one process.
type Ground struct {
	stream, step uint64
	offset       int64
}

// Ground returns the stream's present Ground.
func (s *Stream) Ground() Ground { return Ground{s.id, s.Step, s.Offset()} }

// Shelved returns a copy of a Frozen copy without the fast weights of its origin. It can outlive
// its origin and does not change with it. Its only use is Resumed.
func (s *Stream) Shelved() *Stream {
	f := s.Frozen()
	f.Fast, f.Dynamic, f.dynamic = nil, nil, Arena{}
	return f
}

// Resumed returns a Frozen copy of the stream that has read the text of a Shelved copy. The
// Shelved copy's origin must have the same Ground as s.
func (s *Stream) Resumed(shelved *Stream) *Stream {
	f := shelved.Frozen()
	if f.Divergence == s.Divergence {
		f.Fast, f.Dynamic, f.dynamic, f.learnt = s.Fast, s.Dynamic, s.dynamic, s.learnt
	}
	return f
}

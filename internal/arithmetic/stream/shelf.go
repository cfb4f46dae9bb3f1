package stream

// Ground is what Frozen copies of a stream read on from: two copies of one Ground that have read
// the same text are equal to the bit. It is of one process.
type Ground struct {
	stream, step uint64
	offset       int64
}

// Ground is the stream's as it is now.
func (s *Stream) Ground() Ground { return Ground{s.id, s.Step, s.Offset()} }

// Shelved returns a Frozen copy of a Frozen copy that holds nothing of what its origin has learnt:
// it may outlive that, and does not change with it. It serves for Resumed alone.
func (s *Stream) Shelved() *Stream {
	f := s.Frozen()
	f.Fast, f.Dynamic, f.dynamic = nil, nil, Arena{}
	return f
}

// Resumed returns a Frozen copy of the stream that has read what a Shelved one has, whose origin
// has the same Ground. A copy whose fast weights diverged on the way has none.
func (s *Stream) Resumed(shelved *Stream) *Stream {
	f := shelved.Frozen()
	if f.Divergence == s.Divergence {
		f.Fast, f.Dynamic, f.dynamic, f.learnt = s.Fast, s.Dynamic, s.dynamic, s.learnt
	}
	return f
}

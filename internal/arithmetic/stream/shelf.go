package stream

// Ground identifies the state of a stream at the time of a Frozen copy. Frozen copies with the same
// Ground are bit-identical after reading the same text. A Ground is valid within one process.
type Ground struct {
	stream, step uint64
	offset       int64
}

// Ground returns the Ground of the stream's current state.
func (s *Stream) Ground() Ground { return Ground{s.id, s.Step, s.Offset()} }

// Shelved returns a copy of s without fast weights. s must be a Frozen copy, whose fast weights
// belong to the original stream. The result stays valid when the original stream changes or ends.
// The result is usable only as the argument of Resumed.
func (s *Stream) Shelved() *Stream {
	f := s.Frozen()
	f.Fast, f.Dynamic, f.dynamic = nil, nil, Arena{}
	return f
}

// Resumed returns a Frozen copy of s that has already read the text of shelved. The Shelved copy
// must come from a stream with the same Ground as s.
func (s *Stream) Resumed(shelved *Stream) *Stream {
	f := shelved.Frozen()
	if f.Divergence == s.Divergence {
		f.Fast, f.Dynamic, f.dynamic, f.learnt = s.Fast, s.Dynamic, s.dynamic, s.learnt
	}
	return f
}

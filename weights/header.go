package weights

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
)

// entry is the header's description of one tensor. begin and end are offsets from the end of the
// header.
type entry struct {
	name       string
	dtype      DType
	shape      []int
	begin, end int64
	at         int64 // offset of the tensor's name in the file, for error messages
}

// header is a parsed and checked header. The entries are in the order of their data, and the data
// has no gaps or overlaps.
type header struct {
	metadata map[string]string
	entries  []entry
}

func parseHeader(text []byte, l Limits) (header, error) {
	s := newScanner(text)
	h := header{metadata: map[string]string{}}
	if len(text) == 0 || text[0] != '{' {
		return h, s.fail(0, s.found(0), "'{'")
	}
	err := s.object(func(key string, at int) error {
		if key == metadataKey {
			return s.metadata(h.metadata)
		}
		if len(h.entries) == l.Tensors {
			most := strconv.Itoa(l.Tensors) + " tensors"
			return s.tooLarge(at, "more than "+most, "at most "+most)
		}
		e, err := s.entry(key, at)
		h.entries = append(h.entries, e)
		return err
	})
	if err != nil {
		return h, err
	}
	if rest := bytes.TrimLeft(text[s.in.Offset()+len("}"):], " "); len(rest) > 0 {
		at := len(text) - len(rest)
		return h, s.fail(at, s.found(at), "nothing but spaces after the object")
	}
	return h, h.arrange(l)
}

func (s *scanner) metadata(into map[string]string) error {
	return s.object(func(key string, _ int) error {
		s.where = "metadata " + quote(key)
		value, err := s.str()
		into[key] = value
		return err
	})
}

// entry reads the JSON object that describes one tensor. The object must have exactly the three
// fields of the format.
func (s *scanner) entry(name string, at int) (entry, error) {
	e := entry{name: name, at: prefixBytes + int64(at)}
	s.where = "tensor " + quote(name)
	var fields []string
	err := s.object(func(key string, at int) error {
		fields = append(fields, key)
		s.where = tensorField(name, key)
		switch key {
		case "dtype":
			dtype, err := s.str()
			e.dtype = DType(dtype)
			return err
		case "shape":
			dims, err := s.ints()
			e.shape = make([]int, len(dims))
			for i, d := range dims {
				if e.shape[i] = int(d); int64(e.shape[i]) != d {
					return s.fail(at, strconv.FormatInt(d, 10), "a dimension that fits an int")
				}
			}
			return err
		case "data_offsets":
			ends, err := s.ints()
			if err == nil && len(ends) != 2 {
				return s.fail(at, strconv.Itoa(len(ends))+" numbers", "[begin, end]")
			}
			if err == nil {
				e.begin, e.end = ends[0], ends[1]
			}
			return err
		}
		return s.fail(at, "field "+quote(key), "dtype, shape or data_offsets")
	})
	if err != nil {
		return e, err
	}
	for _, field := range []string{"dtype", "shape", "data_offsets"} {
		if !slices.Contains(fields, field) {
			s.where = tensorField(name, field)
			return e, s.fail(at, "no such field", "dtype, shape and data_offsets")
		}
	}
	return e, nil
}

// arrange sorts the entries by the position of their data. It checks the size of each entry's data,
// the total size, and that there are no gaps or overlaps.
func (h *header) arrange(l Limits) error {
	slices.SortStableFunc(h.entries, func(a, b entry) int {
		// At equal beginnings, the end decides: an empty tensor precedes its neighbor.
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	var next int64
	for i := range h.entries {
		e := &h.entries[i]
		if err := e.check(next, l); err != nil {
			err.Where, err.Offset = tensorField(e.name, err.Where), e.at
			return err
		}
		next = e.end
	}
	return nil
}

// check checks the position and size of one entry's data. next is the end of the preceding entry's
// data. The error names only the field; the caller adds the tensor.
func (e *entry) check(next int64, l Limits) *Error {
	size, err := byteSize(e.dtype, e.shape)
	if err != nil {
		err.Kind = ErrFormat
		return err
	}
	wrong := func(kind error, want string) *Error {
		found := "[" + strconv.FormatInt(e.begin, 10) + "," + strconv.FormatInt(e.end, 10) + "]"
		return &Error{Where: "data_offsets", Found: found, Want: want, Kind: kind}
	}
	switch {
	case e.begin > e.end:
		return wrong(ErrFormat, "begin <= end")
	case e.end-e.begin != int64(size):
		return wrong(ErrFormat, strconv.Itoa(size)+" bytes for "+describe(e.dtype, e.shape))
	case e.begin < next:
		return wrong(ErrFormat, "begin "+strconv.FormatInt(next, 10)+
			": no overlap with the previous tensor")
	case e.begin > next:
		return wrong(ErrFormat, "begin "+strconv.FormatInt(next, 10)+
			": no hole after the previous tensor")
	case e.end > l.DataBytes:
		return wrong(ErrTooLarge, "at most "+strconv.FormatInt(l.DataBytes, 10)+" bytes of data")
	}
	return nil
}

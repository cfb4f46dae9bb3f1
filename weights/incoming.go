package weights

import (
	"fmt"
	"io"
)

// incoming is a file whose data is read once, from beginning to end, as it arrives.
type incoming struct {
	*opened
	r   io.Reader
	pos int64 // offset of the next byte of the data
}

func (in *incoming) stored() *Stored {
	s := &Stored{Metadata: in.metadata, Tensors: make([]StoredTensor, len(in.entries))}
	for i, e := range in.entries {
		s.Tensors[i] = StoredTensor{
			Name: e.name, DType: e.dtype, Shape: e.shape, Bytes: e.end - e.begin,
			Data: incomingTensor{in, i},
		}
	}
	return s
}

// finish reads and discards the rest of the data, then checks that the file ends there.
func (in *incoming) finish() error {
	for i := range in.entries {
		if err := in.skipTo(i, in.entries[i].end); err != nil {
			return err
		}
	}
	return in.end(in.r)
}

// skipTo skips the data before offset at. The offset lies in tensor i or at its end.
func (in *incoming) skipTo(i int, at int64) error {
	if at <= in.pos {
		return nil
	}
	n, err := io.CopyN(io.Discard, in.r, at-in.pos)
	in.pos += n
	if err != nil {
		return in.short(err, i, int(max(0, in.pos-in.entries[i].begin)))
	}
	return nil
}

type incomingTensor struct {
	in *incoming
	i  int
}

// ReadAt implements io.ReaderAt. It requires reads in the order of the file.
func (t incomingTensor) ReadAt(p []byte, at int64) (int, error) {
	in, e := t.in, &t.in.entries[t.i]
	from := e.begin + at
	if from < in.pos {
		return 0, fmt.Errorf("weights: tensor %s is read out of order: expected the order of the "+
			"file",
			quote(e.name))
	}
	if err := in.skipTo(t.i, from); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(in.r, p[:min(int64(len(p)), e.end-from)])
	in.pos += int64(n)
	switch {
	case err != nil:
		return n, in.short(err, t.i, int(at)+n)
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

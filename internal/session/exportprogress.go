package session

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/lmserve/lmserve/internal/sessionlog"
	"github.com/lmserve/lmserve/weights"
)

// Progress is told what is being done, and how many bytes of all are done.
type Progress func(what string, done, total int64)

// part begins a part of the work, of so many bytes, and gives the function that is told of each that
// is done. A nil Progress is told nothing.
func (p Progress) part(what string, total int64) (add func(bytes int)) {
	if p == nil {
		return func(int) {}
	}
	var done atomic.Int64
	p(what, 0, total)
	return func(bytes int) { p(what, min(done.Add(int64(bytes)), total), total) }
}

// file begins a part of the work that reads the data of a file so many times.
func (p Progress) file(what string, f *weights.Stored, times int64) {
	if p == nil {
		return
	}
	var bytes int64
	for i := range f.Tensors {
		bytes += f.Tensors[i].Bytes
	}
	add := p.part(what, times*bytes)
	for i := range f.Tensors {
		f.Tensors[i].Data = toldData{f.Tensors[i].Data, add}
	}
}

// toldLog tells of the text of the records that are read.
type toldLog struct {
	sessionlog.Store
	add func(bytes int)
}

// Read implements logReader.
func (l toldLog) Read(
	ctx context.Context, id string, from int64, visit func(int64, sessionlog.Record) error,
) error {
	return l.Store.Read(ctx, id, from, func(at int64, r sessionlog.Record) error {
		l.add(len(r.Text))
		return visit(at, r)
	})
}

// toldData tells of the bytes that are read.
type toldData struct {
	io.ReaderAt
	add func(bytes int)
}

// ReadAt implements io.ReaderAt.
func (d toldData) ReadAt(p []byte, at int64) (int, error) {
	n, err := d.ReaderAt.ReadAt(p, at)
	d.add(n)
	return n, err
}

// toldFile tells of the bytes that are read.
type toldFile struct {
	io.Reader
	add func(bytes int)
}

// Read implements io.Reader.
func (f toldFile) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	f.add(n)
	return n, err
}

package session

import (
	"context"
	"sync/atomic"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Progress is a function that reports the current step, and the done and total bytes of this step.
type Progress func(what string, done, total int64)

// part begins a step of total bytes. The returned function adds to the bytes of the step that are
// done. If p is nil, the function does nothing.
func (p Progress) part(what string, total int64) (add func(bytes int)) {
	if p == nil {
		return func(int) {}
	}
	var done atomic.Int64
	p(what, 0, total)
	return func(bytes int) { p(what, min(done.Add(int64(bytes)), total), total) }
}

type toldLog struct {
	storage.Store
	add func(bytes int)
}

func (l toldLog) Read(
	ctx context.Context, id string, from int64, visit func(int64, storage.Record) error,
) error {
	return l.Store.Read(ctx, id, from, func(at int64, r storage.Record) error {
		l.add(len(r.Text))
		return visit(at, r)
	})
}

package middleware

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

// Memory limits the memory for data that requests hold whole. Each kind of request has its own
// pool, so that it waits for no other kind.
type Memory struct {
	Lists *Pool // pages of sessions
	Zstd  *Pool // decompressors, which a slow body keeps for long

	little, much *Pool // other data, by size
}

// NewMemory makes a Memory with all of it free.
func NewMemory() *Memory {
	return &Memory{
		Lists:  newPool(limits.ListMemoryMax),
		Zstd:   newPool(limits.ZstdMemoryMax),
		little: newPool(limits.SmallRequestMemoryMax),
		much:   newPool(limits.RequestMemoryMax),
	}
}

// Take reserves memory for data of any kind except pages of sessions and decompressors. It works
// like Pool.Take.
func (m *Memory) Take(ctx context.Context, bytes int64) (*Taken, error) {
	if bytes <= limits.SmallRequestBytes {
		return m.little.Take(ctx, bytes)
	}
	return m.much.Take(ctx, bytes)
}

// Pool is memory that requests share. They get it in order of arrival.
type Pool struct{ free *semaphore.Weighted }

func newPool(bytes int64) *Pool { return &Pool{semaphore.NewWeighted(bytes)} }

// Take waits until the given number of bytes is free. It returns session.ErrOverloaded after
// limits.RequestMemoryWaitMax, or the cause that ended the request.
func (p *Pool) Take(ctx context.Context, bytes int64) (*Taken, error) {
	defer Attend(ctx)()
	waiting, cancel := context.WithTimeout(ctx, limits.RequestMemoryWaitMax)
	defer cancel()
	if p.free.Acquire(waiting, bytes) != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, session.ErrOverloaded
	}
	return &Taken{p, bytes}, nil
}

// Taken is memory that a request holds.
type Taken struct {
	pool  *Pool
	bytes int64
}

// Keep releases all but the given number of bytes.
func (t *Taken) Keep(bytes int64) {
	if bytes < t.bytes {
		t.pool.free.Release(t.bytes - bytes)
		t.bytes = bytes
	}
}

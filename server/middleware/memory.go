package middleware

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

// Memory is what requests may take of the server's memory for what they have in memory whole. Each
// kind of request has a part of its own, so that it waits for no other kind.
type Memory struct {
	Lists *Pool // pages of sessions
	Zstd  *Pool // decompressors, which a slow body keeps for long

	little, much *Pool // all else, by what a request needs
}

// NewMemory makes a Memory of which nothing is taken.
func NewMemory() *Memory {
	return &Memory{
		Lists:  newPool(limits.ListMemoryMax),
		Zstd:   newPool(limits.ZstdMemoryMax),
		little: newPool(limits.SmallRequestMemoryMax),
		much:   newPool(limits.RequestMemoryMax),
	}
}

// Take is Pool.Take for what is no page of sessions.
func (m *Memory) Take(ctx context.Context, bytes int64) (*Taken, error) {
	if bytes <= limits.SmallRequestBytes {
		return m.little.Take(ctx, bytes)
	}
	return m.much.Take(ctx, bytes)
}

// Pool is memory that requests share. They get it in the order in which they have asked.
type Pool struct{ free *semaphore.Weighted }

func newPool(bytes int64) *Pool { return &Pool{semaphore.NewWeighted(bytes)} }

// Take waits until so many bytes are free. The error is session.ErrOverloaded if that takes long,
// or what has ended the request.
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

// Taken is the memory that a request has.
type Taken struct {
	pool  *Pool
	bytes int64
}

// Keep gives back all but so many bytes.
func (t *Taken) Keep(bytes int64) {
	if bytes < t.bytes {
		t.pool.free.Release(t.bytes - bytes)
		t.bytes = bytes
	}
}

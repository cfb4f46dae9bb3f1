package middleware

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

// Memory limits the memory for data that requests hold whole. Pages of sessions, decompressors,
// small reservations and large reservations have separate pools. A request waits only for memory of
// the same pool.
type Memory struct {
	Lists *Pool // for pages of sessions
	Zstd  *Pool // for decompressors, which a slow body holds for long

	little, much *Pool // for other data: small and large reservations
}

// NewMemory makes a Memory whose pools are all free.
func NewMemory() *Memory {
	return &Memory{
		Lists:  newPool(limits.ListMemoryMax),
		Zstd:   newPool(limits.ZstdMemoryMax),
		little: newPool(limits.SmallRequestMemoryMax),
		much:   newPool(limits.RequestMemoryMax),
	}
}

// Take reserves memory for data other than pages of sessions and decompressors. See Pool.Take.
func (m *Memory) Take(ctx context.Context, bytes int64) (*Taken, error) {
	if bytes <= limits.SmallRequestBytes {
		return m.little.Take(ctx, bytes)
	}
	return m.much.Take(ctx, bytes)
}

// Pool is an amount of memory that requests share. Requests reserve memory in order of arrival.
type Pool struct{ free *semaphore.Weighted }

func newPool(bytes int64) *Pool { return &Pool{semaphore.NewWeighted(bytes)} }

// Take waits until the given number of bytes is free, and reserves these bytes. After
// limits.RequestMemoryWaitMax it returns session.ErrOverloaded. If the request ends first, Take
// returns the cause.
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

// Taken is memory that a request has reserved.
type Taken struct {
	pool  *Pool
	bytes int64
}

// Keep releases all reserved memory except the given number of bytes.
func (t *Taken) Keep(bytes int64) {
	if bytes < t.bytes {
		t.pool.free.Release(t.bytes - bytes)
		t.bytes = bytes
	}
}

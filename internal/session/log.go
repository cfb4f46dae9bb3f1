package session

import (
	"fmt"
	"io"
	"sync/atomic"
)

// Log is the text a session has accepted, and with the settings and the seed its one source of truth: a fresh session fed with it arrives at
// the same bits. The offset of a session is the size of its log. Appends come one at a time; reads may come at any time.
type Log interface {
	// Append adds text and returns when it is as durable as this log makes it. It takes all of it or, with an error, none.
	Append(text []byte) error
	// Size is the number of bytes appended.
	Size() int64
	// ReadAt reads what was appended before.
	io.ReaderAt
}

// memoryLog keeps the text in blocks that never move, so that an append costs the same at any size.
type memoryLog struct {
	blocks atomic.Pointer[[][]byte] // all full but the last
	size   atomic.Int64             // stored after the bytes it counts
}

var _ Log = (*memoryLog)(nil)

func newMemoryLog() *memoryLog {
	l := new(memoryLog)
	l.blocks.Store(new([][]byte))
	return l
}

// Append implements Log. It never fails.
func (l *memoryLog) Append(text []byte) error {
	blocks, size := *l.blocks.Load(), l.size.Load()
	for len(text) > 0 {
		at := size % logBlockBytes
		if at == 0 {
			blocks = append(blocks, make([]byte, logBlockBytes))
		}
		n := copy(blocks[len(blocks)-1][at:], text)
		text, size = text[n:], size+int64(n)
	}
	l.blocks.Store(&blocks)
	l.size.Store(size)
	return nil
}

// Size implements Log.
func (l *memoryLog) Size() int64 { return l.size.Load() }

// ReadAt implements io.ReaderAt.
func (l *memoryLog) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("session: log: offset %d, expected 0 or more", off)
	}
	size := l.size.Load()
	for n < len(p) && off < size {
		block := (*l.blocks.Load())[off/logBlockBytes]
		at := off % logBlockBytes
		k := copy(p[n:], block[at:min(logBlockBytes, at+size-off)])
		n, off = n+k, off+int64(k)
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

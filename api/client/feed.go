package client

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// Feed feeds the text of a reader to a session exactly once, like a [Feeder], and returns the
// session's offset after the text. It sends the text read so far, at most one batch in a request,
// and reads more text meanwhile. At the end of the text it reports an unfinished line, if any.
//
// Feed reads in a separate goroutine. If Feed returns before the end of the text, that goroutine
// ends when its current call of Read returns. Some text may then have been read but not fed.
func (c *Client) Feed(
	ctx context.Context, session string, text io.Reader, o FeedOptions,
) (offset int64, err error) {
	f := c.NewFeeder(session, o)
	if f.err != nil {
		return f.Offset(), f.err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ahead := newReadAhead(f.o.BatchBytes)
	go ahead.read(ctx, text)
	for {
		batch, err := ahead.take(ctx)
		if err == nil {
			err = f.Feed(ctx, batch)
		}
		if err == io.EOF {
			return f.Offset(), f.End()
		}
		if err != nil {
			return f.Offset(), err
		}
	}
}

type readAhead struct {
	max int // maximum number of bytes read ahead

	mu   sync.Mutex
	text []byte
	err  error

	filled, emptied chan struct{} // each has capacity 1 and signals a change
}

func newReadAhead(most int) *readAhead {
	return &readAhead{max: most, filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1)}
}

func (a *readAhead) read(ctx context.Context, text io.Reader) {
	piece := make([]byte, a.max)
	for {
		room := a.room()
		for ; room == 0; room = a.room() {
			select {
			case <-a.emptied:
			case <-ctx.Done():
				return
			}
		}
		n, err := text.Read(piece[:room])
		a.mu.Lock()
		a.text, a.err = append(a.text, piece[:n]...), err
		a.mu.Unlock()
		signal(a.filled)
		if err != nil {
			return
		}
	}
}

func (a *readAhead) room() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.max - len(a.text)
}

// take waits for text, and returns all text read since the last call. After all text has been
// taken, take returns the reader's error. If the context ends, take returns the context's error.
func (a *readAhead) take(ctx context.Context) ([]byte, error) {
	for {
		a.mu.Lock()
		text, err := a.text, a.err
		a.text = nil
		a.mu.Unlock()
		switch {
		case len(text) > 0:
			signal(a.emptied)
			return text, nil
		case err == io.EOF:
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("client: reading the text to feed: %w", err)
		}
		select {
		case <-a.filled:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

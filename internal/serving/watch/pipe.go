package watch

import (
	"bytes"
	"context"
	"io"
	"sync"
)

const (
	// pieceBytes is the largest number of bytes that are sent to the server at once.
	pieceBytes = 64 << 10
	// pipeBytes is the number of unsent bytes in memory at which pipe stops reading. The program
	// that writes to the pipe then blocks.
	pipeBytes = 4 << 20
)

// pipe reads ahead from a stream that is not a file. So the number of bytes that wait to be sent is
// known.
type pipe struct {
	mu    sync.Mutex
	text  []byte // text[taken:] has not been sent
	taken int
	err   error
	room  chan struct{}
	there chan struct{}
}

// newPipe returns a pipe, and starts a goroutine that reads from r until r returns an error.
func newPipe(r io.Reader) *pipe {
	p := &pipe{room: make(chan struct{}, 1), there: make(chan struct{}, 1)}
	go p.read(r)
	return p
}

func (p *pipe) read(r io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		p.mu.Lock()
		// Sent text is removed only when it is more than half, so that fewer bytes are moved than
		// sent.
		if p.taken > len(p.text)/2 {
			p.text, p.taken = append(p.text[:0], p.text[p.taken:]...), 0
		}
		p.text = append(p.text, buffer[:n]...)
		p.err = err
		full := len(p.text)-p.taken >= pipeBytes
		p.mu.Unlock()
		wake(p.there)
		if err != nil {
			return
		}
		if full {
			<-p.room
		}
	}
}

// wake wakes a goroutine that receives from c, now or later. It does not block.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// next waits for text, and returns whole lines of at most pieceBytes together. It returns a longer
// line in parts. At the end of the stream it returns the last line even without a newline, and then
// io.EOF.
func (p *pipe) next(ctx context.Context) ([]byte, error) {
	for {
		if text, err := p.take(); len(text) > 0 || err != nil {
			return text, err
		}
		select {
		case <-p.there:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take is like next, but does not wait: it returns nil if no text is available.
func (p *pipe) take() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waits := p.text[p.taken:]
	n := min(len(waits), pieceBytes)
	if end := bytes.LastIndexByte(waits[:n], '\n'); end >= 0 {
		n = end + 1
	} else if n < pieceBytes && p.err == nil {
		return nil, nil
	}
	text := bytes.Clone(waits[:n])
	if p.taken += n; len(p.text)-p.taken < pipeBytes {
		wake(p.room)
	}
	if n == 0 {
		return nil, p.err
	}
	return text, nil
}

func (p *pipe) waiting() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(len(p.text) - p.taken)
}

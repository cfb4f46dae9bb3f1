package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// Decompress decodes a body's Content-Encoding. The size limit of the operation also applies to the
// decoded body. Decompress leaves Snappy bodies to the handler, because the block format of Loki
// cannot be decoded as a stream.
func Decompress(
	c *contract.Contract, streamBytesMax int64, memory *Memory, problems *answer.Problems,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		coding := contract.CodingOf(r)
		if !contract.HasBody(r) || coding == "" || coding == "snappy" {
			next.ServeHTTP(w, r)
			return
		}
		release := func() {}
		if coding == "zstd" {
			taken, err := memory.Zstd.Take(r.Context(), limits.ZstdBytes)
			if err != nil {
				problems.Answer(w, r, err)
				return
			}
			release = func() { taken.Keep(0) }
		}
		from := &noting{r: r.Body}
		plain, end, err := decompressor(coding, from)
		if err != nil {
			release()
			problems.Answer(w, r, problem.OfBody(codingFault(coding, from, 0, err)))
			return
		}
		body := &decompressed{
			ctx: r.Context(), coding: coding, from: from, plain: plain,
			end: sync.OnceFunc(func() { end(); release() }),
		}
		defer body.end()
		most := bodyMost(c.Operation(r), r, streamBytesMax)
		r.Body, r.ContentLength = http.MaxBytesReader(w, body, most), -1
		next.ServeHTTP(w, r)
	})
}

// decompressor returns a reader of the decoded bytes, and the function end, which frees the
// decoder.
func decompressor(coding string, from io.Reader) (plain io.Reader, end func(), err error) {
	if coding == "gzip" {
		r, err := gzip.NewReader(from)
		return r, func() {}, err
	}
	r, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(limits.ZstdWindowMax))
	if err != nil {
		return nil, nil, err
	}
	return r, r.Close, nil
}

type noting struct {
	r     io.Reader
	bytes int64
	err   error // nil if the only error was io.EOF
}

func (n *noting) Read(p []byte) (int, error) {
	read, err := n.r.Read(p)
	n.bytes += int64(read)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return read, err
}

type decompressed struct {
	ctx     context.Context
	coding  string
	from    *noting
	plain   io.Reader
	bytes   int64
	charged int64  // decompressed bytes charged beyond the compressed bytes
	failed  error  // error of the last read, or nil
	end     func() // releases the memory of the decompressor
}

// Read charges the key for decompressed bytes beyond the compressed bytes, which Meter has charged.
// At the end of the body it releases the decompressor's memory, so that this memory is free while
// the caller waits for other memory.
func (d *decompressed) Read(p []byte) (int, error) {
	if d.failed != nil {
		return 0, d.failed
	}
	n, err := d.plain.Read(p)
	d.bytes += int64(n)
	if more := d.bytes - d.from.bytes - d.charged; more > 0 {
		d.charged += more
		Charge(d.ctx, int(more))
	}
	if err != nil && err != io.EOF {
		err = codingFault(d.coding, d.from, d.bytes, err)
	}
	if d.failed = err; err != nil {
		d.end()
	}
	return n, err
}

func (d *decompressed) Close() error { return nil }

// codingFault returns the error of the connection if there was one. Otherwise the compressed data
// is invalid, and codingFault returns a problem.
func codingFault(coding string, from *noting, bytes int64, err error) error {
	if from.err != nil {
		return from.err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return problem.New(api.ProblemMalformedBody,
		fmt.Sprintf("The body is not valid %s after %d decompressed bytes: "+
			"%v.", coding, bytes, err))
}

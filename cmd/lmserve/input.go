package main

import (
	"context"
	"io"
	"os"
)

// within calls the function `do` in a new goroutine and returns the result. If the context ends
// first, within returns the context's error, and later closes a file that do returns. The goroutine
// is necessary because a context cannot interrupt the opening or reading of a named pipe.
func within[T any](ctx context.Context, do func() (T, error)) (value T, err error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		go func() {
			if late, ok := any((<-done).value).(*os.File); ok {
				_ = late.Close()
			}
		}()
		return value, ctx.Err()
	}
}

// openFile opens a file or a named pipe. It waits for a pipe's writer until the context ends.
func openFile(ctx context.Context, name string) (*os.File, error) {
	return within(ctx, func() (*os.File, error) { return os.Open(name) })
}

// openAll opens all files before scoring starts. Without files, it returns standard input. The file
// name "-" also means standard input.
func openAll(
	ctx context.Context, files []string, stdin io.Reader,
) (in io.Reader, closeAll func(), err error) {
	if len(files) == 0 {
		return stdin, func() {}, nil
	}
	var readers []io.Reader
	var open []*os.File
	closeAll = func() {
		for _, f := range open {
			f.Close()
		}
	}
	for _, name := range files {
		if name == standardInput {
			readers = append(readers, stdin)
			continue
		}
		f, err := openFile(ctx, name)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		open, readers = append(open, f), append(readers, f)
	}
	return io.MultiReader(readers...), closeAll, nil
}

// patientReader reads a file that may be a pipe. A blocked Read returns when the context ends.
type patientReader struct {
	ctx context.Context
	in  io.Reader
	// a file read that outlives the context writes to buf instead of the caller's buffer
	buf []byte
}

func (r *patientReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.buf == nil {
		r.buf = make([]byte, 1<<16)
	}
	part := r.buf[:min(len(b), len(r.buf))]
	n, err := within(r.ctx, func() (int, error) { return r.in.Read(part) })
	return copy(b, part[:n]), err
}

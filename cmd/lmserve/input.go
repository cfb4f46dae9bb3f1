package main

import (
	"context"
	"io"
	"os"
)

// within calls do and returns its result. If the context ends first, within returns the context's
// error. If do then returns a file, within closes it. do runs in its own goroutine: opening or
// reading a named pipe may block forever, and a context cannot end that.
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
				_ = late.Close() // nobody reads from it
			}
		}()
		return value, ctx.Err()
	}
}

// openFile opens a file, or a pipe that gets a writer before the context ends.
func openFile(ctx context.Context, name string) (*os.File, error) {
	return within(ctx, func() (*os.File, error) { return os.Open(name) })
}

// openAll opens every file before scoring starts. "-" is standard input.
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

// patientReader reads a file that may be a pipe. The end of the context ends a blocked Read.
type patientReader struct {
	ctx context.Context
	in  io.Reader
	buf []byte // a read ended by the context may still write to it
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

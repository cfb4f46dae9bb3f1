package middleware

import "github.com/lmserve/lmserve/internal/serving/spool"

// ahead buffers the part of a request body that was read before the handler asked for it. The last
// bytes are in memory, and earlier bytes are in a temporary file. The zero value is empty.
type ahead struct {
	drops   bool         // no handler asks for the bytes, so earlier bytes are dropped
	file    *spool.Spool // nil if no bytes are in a file
	in, out int64        // bytes written to the file, and bytes read back; both count dropped bytes
	tail    []byte       // the bytes after those in the file
}

// room returns a buffer for the next bytes, or nil if the disk has no space. After writing n bytes
// to the buffer, the caller calls got(n).
func (a *ahead) room() []byte {
	if len(a.tail) == cap(a.tail) {
		if !a.flush() {
			return nil
		}
		if a.tail = a.tail[:0]; cap(a.tail) < spool.BufferBytes {
			a.tail = make([]byte, 0, spool.BufferBytes)
		}
	}
	return a.tail[len(a.tail):cap(a.tail)]
}

func (a *ahead) got(n int) { a.tail = a.tail[:len(a.tail)+n] }

// flush drops the field tail or moves it to the file. It returns false if the file cannot be
// written. In this case tail is unchanged.
func (a *ahead) flush() bool {
	if len(a.tail) == 0 {
		return true
	}
	if a.drops {
		a.in += int64(len(a.tail))
		a.out = a.in
		return true
	}
	if a.file == nil {
		file, err := spool.New()
		if err != nil {
			return false
		}
		a.file = file
	}
	n, err := a.file.WriteAt(a.tail, a.in)
	if err != nil {
		return false
	}
	a.in += int64(n)
	return true
}

// take reads the oldest buffered bytes into p. It returns 0 and no error if the buffer is empty.
func (a *ahead) take(p []byte) (int, error) {
	if left := a.in - a.out; left > 0 {
		n, err := a.file.ReadAt(p[:min(int64(len(p)), left)], a.out)
		a.out += int64(n)
		if n > 0 {
			err = nil
		}
		return n, err
	}
	n := copy(p, a.tail)
	a.tail = a.tail[n:]
	return n, nil
}

func (a *ahead) close() {
	if a.file != nil {
		a.file.Close()
	}
}

package middleware

import "github.com/lmserve/lmserve/internal/serving/spool"

// ahead holds the part of a body that was read before its reader asked: the end in memory, the rest
// in a temporary file. The zero value is empty.
type ahead struct {
	file    *spool.Spool // nil without a file
	in, out int64        // bytes written to the file, and bytes read back
	tail    []byte       // the bytes after those in the file
}

// room returns a buffer for the next bytes, or nil if there is no space. After writing to the
// buffer, the caller calls the method got with the number of bytes.
func (a *ahead) room() []byte {
	if len(a.tail) == cap(a.tail) {
		if !a.flush() {
			return nil
		}
		if a.tail = a.tail[:0]; cap(a.tail) < spool.BufferBytes { // some bytes were taken
			a.tail = make([]byte, 0, spool.BufferBytes)
		}
	}
	return a.tail[len(a.tail):cap(a.tail)]
}

// got adds n bytes written to the buffer from room.
func (a *ahead) got(n int) { a.tail = a.tail[:len(a.tail)+n] }

// flush moves the tail to the file. If it fails, nothing changes.
func (a *ahead) flush() bool {
	if len(a.tail) == 0 {
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

// take reads from the beginning; 0 bytes without an error mean that ahead is empty.
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

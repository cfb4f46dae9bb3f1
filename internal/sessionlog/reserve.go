package sessionlog

import (
	"errors"
	"math/rand/v2"
	"os"
)

// A deletion writes a few pages before it frees any. On a disk without a byte left it gets the room
// of a file that is there for nothing else.
const (
	reserveName  = databaseName + ".reserve"
	reserveBytes = 1 << 20
)

// keepReserve makes the reserve, unless it is there. A disk without room for it has none.
func (f *Folder) keepReserve() {
	path := f.path(reserveName)
	out, err := f.files.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	content := make([]byte, reserveBytes)
	random := rand.NewChaCha8([32]byte{}) // what a file system cannot compress
	_, _ = random.Read(content)
	_, err = out.Write(content)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		_ = f.files.Remove(path)
	}
}

// useReserve gives the room of the reserve back to the disk, and tells whether there was any.
func (f *Folder) useReserve() bool {
	return f.files.Remove(f.path(reserveName)) == nil
}

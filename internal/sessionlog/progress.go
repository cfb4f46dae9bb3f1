package sessionlog

import (
	"io/fs"
	"os"
	"sync"
	"time"
)

// work tells how far a piece of work on a data folder is, in bytes that were read or written. A nil
// work tells nobody. Its methods may be called at once.
type work struct {
	tell func(done, total int64) // total 0: nobody knows

	mu          sync.Mutex
	done, total int64
}

// newWork returns the work that tells of itself; nil if there is nobody to tell.
func newWork(tell func(done, total int64)) *work {
	if tell == nil {
		return nil
	}
	return &work{tell: tell}
}

// add notes that so many bytes more are done.
func (w *work) add(bytes int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += bytes
	w.tellLocked()
}

// reach notes that so many bytes are done, if they were fewer.
func (w *work) reach(done int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = max(w.done, done)
	w.tellLocked()
}

// unknown is what expect is told where nobody knows how many bytes are left.
const unknown = -1

// expect notes how many bytes there are beside those that are done.
func (w *work) expect(left int64) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total = 0; left != unknown {
		w.total = w.done + left
	}
	w.tellLocked()
}

func (w *work) tellLocked() {
	done := w.done
	if w.total > 0 {
		done = min(done, w.total)
	}
	w.tell(done, w.total)
}

// growthLooks is the time between two looks at a file that grows.
const growthLooks = 100 * time.Millisecond

// growing tells of a file that is being written as of so many bytes, until its end is called: that
// takes what was not yet told of for written.
func (w *work) growing(path string, bytes int64) (end func()) {
	if w == nil {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	told := int64(0)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(growthLooks):
			}
			if info, err := os.Stat(path); err == nil {
				size := min(max(info.Size(), told), bytes)
				w.add(size - told)
				told = size
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		w.add(bytes - told)
	}
}

// workFiles tells of the bytes of files that are read and written.
type workFiles struct {
	fileSystem
	work *work
}

func (f workFiles) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	opened, err := f.fileSystem.OpenFile(name, flag, perm)
	if err != nil || f.work == nil {
		return opened, err
	}
	return workFile{opened, f.work}, nil
}

type workFile struct {
	file
	work *work
}

func (f workFile) Read(p []byte) (int, error)             { return f.told(f.file.Read(p)) }
func (f workFile) ReadAt(p []byte, at int64) (int, error) { return f.told(f.file.ReadAt(p, at)) }
func (f workFile) Write(p []byte) (int, error)            { return f.told(f.file.Write(p)) }
func (f workFile) WriteAt(p []byte, at int64) (int, error) {
	return f.told(f.file.WriteAt(p, at))
}

func (f workFile) told(n int, err error) (int, error) {
	f.work.add(int64(n))
	return n, err
}

// Package reload keeps a value that was read from files, and reads the value again when the files
// have changed.
package reload

import (
	"os"
	"sync"
	"time"
)

const (
	checkEvery  = time.Second // between two looks at the files
	reportEvery = time.Minute // between two reports of the same trouble
	// racyFor is the age below which a file may change again unseen: the times of some file systems
	// are this coarse.
	racyFor = 2 * time.Second
)

// Value is a T that was read from files. Its methods may be called concurrently. A Value has no
// goroutine: Get looks at the files, at most once a second.
type Value[T any] struct {
	read   func() (T, error)
	report func(error)
	paths  []string

	mu       sync.Mutex // guards what follows
	value    T
	err      error // the reason why the files' present content is not the value
	seen     []os.FileInfo
	checked  time.Time
	reported time.Time
}

// New reads the value for the first time, and fails if read fails. Every later reading of changed
// files is reported: report gets nil when the value is new, and else the reason why the old value
// stays, which is repeated every minute for as long as it holds. report must not call the Value.
func New[T any](read func() (T, error), report func(error), paths ...string) (*Value[T], error) {
	v := &Value[T]{read: read, report: report, paths: paths, checked: time.Now()}
	v.seen = v.look() // looked at before reading, so that a change in between is seen next time
	var err error
	v.value, err = read()
	return v, err
}

// Get returns the value last read, and an error if the files have changed since and cannot be read.
func (v *Value[T]) Get() (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); now.Sub(v.checked) >= checkEvery {
		v.checkLocked(now)
	}
	return v.value, v.err
}

// checkLocked looks at the files and reads the value again if they have changed.
func (v *Value[T]) checkLocked(now time.Time) {
	seen := v.look()
	changed := !same(seen, v.seen)
	if !changed && v.err == nil && !v.racyLocked() {
		v.checked = now
		return
	}
	failed := v.err != nil
	v.seen, v.checked = seen, now
	value, err := v.read()
	v.err = err
	if err == nil {
		v.value = value
	}
	if changed || failed != (err != nil) || err != nil && now.Sub(v.reported) >= reportEvery {
		v.reported = now
		v.report(err)
	}
}

// look describes the files; the description of a file that is not there is nil.
func (v *Value[T]) look() []os.FileInfo {
	seen := make([]os.FileInfo, len(v.paths))
	for i, path := range v.paths {
		if info, err := os.Stat(path); err == nil {
			seen[i] = info
		}
	}
	return seen
}

// racyLocked reports whether a file was so young when it was last looked at that a change since
// then might not show in its time.
func (v *Value[T]) racyLocked() bool {
	for _, info := range v.seen {
		if info != nil && v.checked.Sub(info.ModTime()) < racyFor {
			return true
		}
	}
	return false
}

func same(a, b []os.FileInfo) bool {
	for i := range a {
		if (a[i] == nil) != (b[i] == nil) {
			return false
		}
		if a[i] != nil && !(os.SameFile(a[i], b[i]) && a[i].Size() == b[i].Size() &&
			a[i].ModTime().Equal(b[i].ModTime())) {
			return false
		}
	}
	return true
}

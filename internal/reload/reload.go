// Package reload keeps a value that was read from files, and reads it again when they have changed.
package reload

import (
	"os"
	"sync"
	"time"
)

const (
	checkEvery  = time.Second     // between two looks at the files
	reportEvery = time.Minute     // between two reports of the same trouble
	racyFor     = 2 * time.Second // a file this young may change again without a sign of it: its time is as coarse as its file system's
)

// Value is a T that was read from files. All its methods may be called at once. It has no goroutine: it looks at the files when it is asked
// for the value, at most once a second.
type Value[T any] struct {
	read   func() (T, error)
	report func(error)
	paths  []string

	mu       sync.Mutex
	value    T
	err      error // why the files' present content is not the value
	seen     []os.FileInfo
	checked  time.Time
	reported time.Time
}

// New reads the value for the first time, and fails if that fails. report is told of every later reading of files that have changed: nil when
// the value is new, otherwise why the old one stays; the latter again every minute that it lasts. It must not call the Value.
func New[T any](read func() (T, error), report func(error), paths ...string) (*Value[T], error) {
	v := &Value[T]{read: read, report: report, paths: paths, checked: time.Now()}
	v.seen = v.look() // before reading: a change in between is seen next time
	var err error
	v.value, err = read()
	return v, err
}

// Get gives the value last read, and an error if the files have changed and cannot be read.
func (v *Value[T]) Get() (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); now.Sub(v.checked) >= checkEvery {
		v.check(now)
	}
	return v.value, v.err
}

// check needs mu.
func (v *Value[T]) check(now time.Time) {
	seen := v.look()
	changed := !same(seen, v.seen)
	if !changed && v.err == nil && !v.racy() {
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

// look describes the files; nil where there is none.
func (v *Value[T]) look() []os.FileInfo {
	seen := make([]os.FileInfo, len(v.paths))
	for i, path := range v.paths {
		if info, err := os.Stat(path); err == nil {
			seen[i] = info
		}
	}
	return seen
}

// racy says whether a file was so young when it was last looked at that a change since might not show.
func (v *Value[T]) racy() bool {
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
		if a[i] != nil && !(os.SameFile(a[i], b[i]) && a[i].Size() == b[i].Size() && a[i].ModTime().Equal(b[i].ModTime())) {
			return false
		}
	}
	return true
}

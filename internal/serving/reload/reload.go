// Package reload keeps a value that is read from files, and reads it again when the files change.
package reload

import (
	"os"
	"sync"
	"time"
)

const (
	checkEvery  = time.Second
	reportEvery = time.Minute // time between two reports of a lasting error
	// racyFor is the coarsest resolution of modification times. Two changes within this time may
	// leave the same modification time.
	racyFor = 2 * time.Second
)

// Value is a value of type T that is read from files. Its methods are safe for concurrent use. Get
// checks the files at most once a second, without a goroutine.
type Value[T any] struct {
	read   func() (T, error)
	report func(error)
	paths  []string

	mu       sync.Mutex // guards the following fields
	value    T
	err      error
	seen     []os.FileInfo
	checked  time.Time
	reported time.Time
}

// New reads the value, and fails if read fails. After a change of the files, Get reads the value
// again. Get then calls report with nil, or with the error because of which the old value stays.
// While an error lasts, report is called every minute. report must not call the Value, which is
// locked then.
func New[T any](read func() (T, error), report func(error), paths ...string) (*Value[T], error) {
	v := &Value[T]{read: read, report: report, paths: paths, checked: time.Now()}
	v.seen = v.look() // before read, so that a change during read is noticed at the next check
	var err error
	v.value, err = read()
	return v, err
}

// Get returns the value that was read last. It also returns an error if the files have changed
// since and cannot be read.
func (v *Value[T]) Get() (T, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); now.Sub(v.checked) >= checkEvery {
		v.checkLocked(now)
	}
	return v.value, v.err
}

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

func (v *Value[T]) look() []os.FileInfo {
	seen := make([]os.FileInfo, len(v.paths))
	for i, path := range v.paths {
		if info, err := os.Stat(path); err == nil {
			seen[i] = info
		}
	}
	return seen
}

// racyLocked reports whether a file was modified shortly before the last check. A further change
// might then have the same modification time.
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

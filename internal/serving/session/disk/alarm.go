package disk

import (
	"fmt"
	"sync"
)

// The reserve is free disk space for writes that cannot be refused. For example, a deletion writes
// a few pages before it frees any, and snapshots in progress are finished. An alarm begins when
// less than the reserve is free.
const (
	ReserveMost = 256 << 20
	ReservePart = 20 // the reserve is at most 1/ReservePart of the disk or of the budget
)

// AlarmError is the error of requests that need disk space while the disk or the disk budget is
// nearly full. It affects all callers.
type AlarmError struct {
	Left int64 // free bytes
	Of   int64 // size of the file system or of the budget, in bytes
	What string
}

func (e *AlarmError) Error() string {
	return fmt.Sprintf("disk: %d of the %d bytes of %s are free", max(0, e.Left), e.Of,
		e.What)
}

const (
	theBudget     = "the disk budget"
	theFileSystem = "the file system of the data folder"
)

// Space describes how much of the disk is used and free, in bytes.
type Space struct {
	Used int64 // bytes used by the data folder
	// Left is the free space of the file system, and All is its size. Both are 0 if they are
	// unknown.
	Left, All int64
}

// Options configure a Guard.
type Options struct {
	Space  func() Space // nil if there is no disk; then there is never an alarm
	Budget int64        // limit on the size of the data folder; 0 means no limit
	// Told is called with the reason when an alarm begins, and with nil when the alarm ends. Told
	// must not call the Guard. Told may be nil.
	Told func(why error)
}

// alarm begins when the free part of the file system or of the budget is less than the reserve. It
// ends when twice the reserve is free. The alarm begins and ends only in calls of its methods; no
// goroutine watches the disk.
type alarm struct {
	Options
	mu sync.Mutex
	on bool
}

// ample reports whether there is much space for the given number of bytes. With these bytes, the
// folder must use at most half of its budget. It must also use at most as much space as the file
// system has free now.
func (a *alarm) ample(bytes int64) bool {
	if a.Space == nil {
		return true
	}
	space := a.Space()
	return (a.Budget == 0 || bytes <= a.Budget/2-space.Used) &&
		(space.All == 0 || bytes <= space.Left-space.Used)
}

// fits returns an error if a request for the given number of bytes must be refused. A request may
// use up to half of the reserve. So small writes are refused only during an alarm.
func (a *alarm) fits(bytes int64) error {
	if a.Space == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	space := a.Space()
	tight := []AlarmError{{Left: space.Left, Of: space.All, What: theFileSystem}}
	if a.Budget > 0 {
		tight = append(tight, AlarmError{Left: a.Budget - space.Used, Of: a.Budget,
			What: theBudget})
	}
	var why error
	var beyond error
	for n := range tight {
		e := &tight[n]
		if e.Of == 0 {
			continue
		}
		reserve := min(ReserveMost, e.Of/ReservePart)
		least := reserve
		if a.on {
			least = 2 * reserve
		}
		if e.Left < least {
			why = e
		}
		if bytes > e.Left-reserve/2 {
			beyond = e
		}
	}
	if a.on != (why != nil) {
		a.on = why != nil
		if a.Told != nil {
			a.Told(why)
		}
	}
	if why != nil {
		return why
	}
	return beyond
}

package disk

import (
	"fmt"
	"sync"
)

// An alarm begins when less space than the reserve is free. The reserve is for writes that cannot
// be refused: a deletion writes a few pages before it frees any, and snapshots in progress are
// finished.
const (
	ReserveMost = 256 << 20
	ReservePart = 20 // the reserve is at most this part of the disk or budget: 1/20
)

// AlarmError is the error for all callers while the disk is nearly full.
type AlarmError struct {
	Left int64 // free bytes
	Of   int64 // all bytes of the file system or of the budget
	What string
}

func (e *AlarmError) Error() string {
	return fmt.Sprintf("disk: %d of the %d bytes of %s are free", max(0, e.Left), e.Of,
		e.What)
}

// These are the values of AlarmError.What.
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
	Space  func() Space // nil means that there is no disk, and never an alarm
	Budget int64        // limit on the size of the data folder; 0 means no limit
	// Told is called with the reason when an alarm begins, and with nil when it ends. It must not
	// call the Guard. It may be nil.
	Told func(why error)
}

// alarm begins when the free part of the file system or of the budget is less than the reserve. It
// ends when twice the reserve is free. The state changes only in calls of its methods.
type alarm struct {
	Options
	mu sync.Mutex
	on bool
}

// ample reports whether much space is still free after the given number of bytes is used. The
// folder must then use at most half of its budget, and at most as much space as the file system has
// free.
func (a *alarm) ample(bytes int64) bool {
	if a.Space == nil {
		return true
	}
	space := a.Space()
	return (a.Budget == 0 || bytes <= a.Budget/2-space.Used) &&
		(space.All == 0 || bytes <= space.Left-space.Used)
}

// fits returns an error if a request for the given number of bytes must be refused. A request may
// use up to half of the reserve, so that small writes are refused only during an alarm.
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

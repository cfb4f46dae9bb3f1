package disk

import (
	"fmt"
	"sync"
)

// The reserve is what an alarm keeps free. A deletion writes a few pages before it frees any, and
// snapshots that are being written when the alarm begins still come to their end.
const (
	ReserveMost = 256 << 20 // bytes
	ReservePart = 20        // of a smaller disk or budget, a twentieth
)

// AlarmError says that there is no room left on the disk, for anybody.
type AlarmError struct {
	Left int64 // bytes
	Of   int64 // bytes of the file system, or of the budget
	What string
}

func (e *AlarmError) Error() string {
	return fmt.Sprintf("disk: %d bytes are left of the %d bytes of %s", max(0, e.Left), e.Of,
		e.What)
}

// What an AlarmError is about.
const (
	theBudget     = "the disk budget"
	theFileSystem = "the file system of the data folder"
)

// Space is what there is of the disk, in bytes.
type Space struct {
	Used int64 // by the data folder
	// Left is what is left of the file system, which has All. 0 of 0 is not known.
	Left, All int64
}

// Options of a Guard.
type Options struct {
	Space  func() Space // nil: there is no disk, and never an alarm
	Budget int64        // that the data folder may take; 0: all of the file system
	// Told is told when an alarm begins, why, and with nil when it ends. It must not call the
	// Guard. Nil: nobody is told.
	Told func(why error)
}

// alarm is on from the moment at which less than the reserve is left of the file system or of the
// budget, until twice the reserve is. It looks when it is asked.
type alarm struct {
	Options
	mu sync.Mutex
	on bool
}

// ample says whether as many bytes more leave as much again.
func (a *alarm) ample(bytes int64) bool {
	if a.Space == nil {
		return true
	}
	space := a.Space()
	return (a.Budget == 0 || bytes <= a.Budget/2-space.Used) &&
		(space.All == 0 || bytes <= space.Left-space.Used)
}

// fits says why as many bytes more may not be taken. They may take half of the reserve, so that
// what is small is only refused by an alarm.
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

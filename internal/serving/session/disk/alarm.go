package disk

import (
	"fmt"
	"sync"
)

// The reserve is the free space at which an alarm begins. Space must be left then: a deletion
// writes a few pages before it frees any, and snapshots that are being written are completed.
const (
	ReserveMost = 256 << 20 // bytes
	ReservePart = 20        // a smaller disk or budget reserves a twentieth
)

// AlarmError says that the disk is nearly full, for every caller.
type AlarmError struct {
	Left int64 // bytes
	Of   int64 // size of the file system, or of the budget, in bytes
	What string
}

func (e *AlarmError) Error() string {
	return fmt.Sprintf("disk: %d of the %d bytes of %s are free", max(0, e.Left), e.Of,
		e.What)
}

// The limit that an AlarmError is about.
const (
	theBudget     = "the disk budget"
	theFileSystem = "the file system of the data folder"
)

// Space is the use of the disk, in bytes.
type Space struct {
	Used int64 // bytes used by the data folder
	// Left is the free space of the file system, whose size is All. Both are 0 if they are not
	// known.
	Left, All int64
}

// Options of a Guard.
type Options struct {
	Space  func() Space // nil if there is no disk; then there is never an alarm
	Budget int64        // limit on the data folder; 0 means the whole file system
	// Told is called with the reason when an alarm begins, and with nil when it ends. It must not
	// call the Guard. It may be nil.
	Told func(why error)
}

// alarm begins when less than the reserve is left of the file system or of the budget. It ends when
// twice the reserve is left. It checks only when it is asked.
type alarm struct {
	Options
	mu sync.Mutex
	on bool
}

// ample reports whether much space stays free after this many more bytes. The folder then uses at
// most half of its budget, and at most as much as the file system has left.
func (a *alarm) ample(bytes int64) bool {
	if a.Space == nil {
		return true
	}
	space := a.Space()
	return (a.Budget == 0 || bytes <= a.Budget/2-space.Used) &&
		(space.All == 0 || bytes <= space.Left-space.Used)
}

// fits returns why this many more bytes are refused. They may use half of the reserve, so that only
// an alarm refuses small writes.
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

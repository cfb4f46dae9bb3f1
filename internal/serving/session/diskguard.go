package session

import (
	"github.com/lmserve/lmserve/internal/serving/session/disk"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// newGuard makes the guard of the disk that the store is on. A store that does not account what it
// takes is on none.
func newGuard(o Options) *disk.Guard {
	guarding := disk.Options{Budget: o.DiskBudget, Told: o.DiskAlarm}
	if m, ok := o.Store.(storage.Metered); ok {
		guarding.Space = func() disk.Space { return spaceOf(m.Usage()) }
	}
	return disk.New(guarding)
}

func spaceOf(u storage.Usage) disk.Space {
	return disk.Space{Used: u.Sessions + u.Temporary, Left: u.Left, All: u.All}
}

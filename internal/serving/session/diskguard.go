package session

import (
	"github.com/lmserve/lmserve/internal/serving/session/disk"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// newGuard returns a guard for the store's disk. If the store does not report its disk usage, the
// guard has no limits.
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

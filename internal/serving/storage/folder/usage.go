package folder

import (
	"slices"
	"sync"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// usage is the disk usage of a folder by session, in bytes. A session is charged for the lengths of
// its files. A file that several sessions share is charged only to the oldest of them, which has
// the smallest id.
type usage struct {
	mu      sync.Mutex
	charges map[string]int64
	holders map[inode][]string // the sorted ids of the sessions that share a file
	sum     int64
	charged func(id string, bytes int64)
}

type inode struct{ device, inode uint64 }

func (l links) file() inode { return inode{l.device, l.inode} }

func (u *usage) init() {
	u.charges, u.holders = map[string]int64{}, map[inode][]string{}
}

func (s *session) files(visit func(name string, l links, bytes int64)) {
	for _, seg := range s.segments {
		visit(hexName(segmentPrefix, uint64(seg.offset)), seg.shared, seg.bytes)
	}
	for _, kept := range s.states {
		visit(hexName(statePrefix, uint64(kept.Offset)), kept.shared, kept.Bytes)
	}
}

func (u *usage) add(s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.files(func(_ string, l links, bytes int64) {
		if l.links <= 1 {
			return
		}
		before := u.holders[l.file()]
		n, found := slices.BinarySearch(before, s.id)
		if found {
			return
		}
		u.holders[l.file()] = slices.Insert(slices.Clone(before), n, s.id)
		if n == 0 && len(before) > 0 { // s now has the smallest id, so the file is charged to s
			u.chargeLocked(before[0], -bytes)
		}
	})
	u.charges[s.id] = 0
	u.setLocked(s.id, u.ownLocked(s))
}

// ownLocked returns the bytes that a session is charged for. The caller holds the lock.
func (u *usage) ownLocked(s *session) int64 {
	sum := storage.SessionCharge + int64(len(s.head))
	s.files(func(_ string, l links, bytes int64) {
		if l.links > 1 {
			if who := u.holders[l.file()]; len(who) > 0 && who[0] != s.id {
				return
			}
		}
		sum += bytes
	})
	return sum
}

func (u *usage) update(s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.charges[s.id]; ok {
		u.setLocked(s.id, u.ownLocked(s))
	}
}

func (u *usage) share(s *session, now links) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.links > 1 && u.holders[now.file()] == nil {
		u.holders[now.file()] = []string{s.id}
	}
}

// drop records that a session no longer uses a file. If other sessions share the file, it is then
// charged to the oldest of them.
func (u *usage) drop(s *session, l links, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropLocked(s.id, l, bytes)
}

func (u *usage) dropLocked(id string, l links, bytes int64) {
	who := u.holders[l.file()]
	n, found := slices.BinarySearch(who, id)
	if !found {
		return
	}
	who = slices.Delete(slices.Clone(who), n, n+1)
	if n == 0 && len(who) > 0 {
		u.chargeLocked(who[0], bytes)
	}
	if u.holders[l.file()] = who; len(who) == 0 {
		delete(u.holders, l.file())
	}
}

func (u *usage) remove(s *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s.files(func(_ string, l links, bytes int64) { u.dropLocked(s.id, l, bytes) })
	u.setLocked(s.id, 0)
	delete(u.charges, s.id)
}

func (u *usage) chargeLocked(id string, more int64) { u.setLocked(id, u.charges[id]+more) }

func (u *usage) setLocked(id string, bytes int64) {
	before := u.charges[id]
	u.charges[id] = bytes
	if u.sum += bytes - before; u.charged != nil && bytes != before {
		u.charged(id, bytes)
	}
}

// Meter implements storage.Metered.
func (f *Folder) Meter(charged func(id string, bytes int64)) {
	f.usage.mu.Lock()
	defer f.usage.mu.Unlock()
	f.usage.charged = charged
	for id, bytes := range f.usage.charges {
		charged(id, bytes)
	}
}

// Usage implements storage.Metered.
func (f *Folder) Usage() storage.Usage {
	f.usage.mu.Lock()
	sum := storage.Usage{Sessions: f.usage.sum}
	f.usage.mu.Unlock()
	sum.Temporary = f.temporary.Load()
	if left, all, err := f.files.Space(f.dir); err == nil {
		sum.Left, sum.All = left, all
	}
	return sum
}

var _ storage.Metered = (*Folder)(nil)

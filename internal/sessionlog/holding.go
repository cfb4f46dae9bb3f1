package sessionlog

import (
	"errors"
	"sync"
)

// ErrBackup says that a folder has another backup, and has only one at a time.
var ErrBackup = errors.New("another backup is under way")

// holding is what a folder keeps as it is for a backup: the pages of lmserve.db while the file is
// copied, and snapshot files until the backup has ended. The zero value holds nothing.
type holding struct {
	mu        sync.Mutex
	busy      bool            // there is a backup
	copying   bool            // lmserve.db is being copied: no free page may be overwritten
	postponed []*write        // deletions whose pages are overwritten when the copy is made
	pinned    map[string]bool // names of snapshot files; while copying, every file is held
	// renamed has the names that removed files have until the backup ends. A removed file must give
	// up its own name, which a new snapshot may need.
	renamed map[string]string
}

// begin holds every snapshot file, and the pages of the database.
func (h *holding) begin() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy {
		return ErrBackup
	}
	h.busy, h.copying = true, true
	h.pinned, h.renamed = map[string]bool{}, map[string]string{}
	return nil
}

// unlessHeld does something during which no backup begins, unless there is one.
func (h *holding) unlessHeld(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.busy {
		do()
	}
}

// copied ends the holding of pages, and goes on with the snapshot files of these names alone. It
// gives the names of files that were removed and are no longer held, and the postponed deletions.
func (h *holding) copied(names []string) (unheld []string, postponed []*write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.copying = false
	for _, name := range names {
		h.pinned[name] = true
	}
	for name, now := range h.renamed {
		if !h.pinned[name] {
			unheld = append(unheld, now)
			delete(h.renamed, name)
		}
	}
	postponed, h.postponed = h.postponed, nil
	return unheld, postponed
}

// end holds nothing any more, and gives the names of the files that were removed in the meantime.
func (h *holding) end() (unheld []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, now := range h.renamed {
		unheld = append(unheld, now)
	}
	h.busy, h.pinned, h.renamed = false, nil, nil
	return unheld
}

// postpone takes deletions over whose pages cannot be overwritten now; false: they can.
func (h *holding) postpone(deletions []*write) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.copying {
		h.postponed = append(h.postponed, deletions...)
	}
	return h.copying
}

// retire gives a snapshot file that has left the index another name, and tells whether a backup
// needs the file still.
func (h *holding) retire(name string, rename func(to string) error) (now string, held bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now = temporaryName(name)
	if err := rename(now); err != nil {
		return "", false, err
	}
	if _, before := h.renamed[name]; before || !h.copying && !h.pinned[name] {
		return now, false, nil
	}
	h.renamed[name] = now
	return now, true, nil
}

// open opens a snapshot file under the name that it has now.
func (h *holding) open(name string, open func(name string) (file, error)) (file, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now, ok := h.renamed[name]; ok {
		name = now
	}
	return open(name)
}

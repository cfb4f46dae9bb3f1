package main

import (
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// checkOwners refuses to open to everybody what belongs to keys: a keys file that was lost or
// forgotten must not take the protection of the sessions along.
func (f *serveFlags) checkOwners(sessions *session.Manager, ring *keys.Ring, where string) error {
	if f.openToAll || ring != nil && ring.Required() {
		return nil
	}
	owned, example, err := countOwned(sessions)
	if err != nil || owned == 0 {
		return err
	}
	path, err := f.data.path()
	if err != nil {
		return err
	}
	return usagef("%s has sessions that belong to keys (found %d; the first is %s, of the key %s), and there is no keys file %s: "+
		"without one the server asks nobody for a key; put the file back, name it with --keys-file, "+
		"make a new one with 'lmserve keys add NAME --admin', or say --open-to-anyone",
		where, owned, example.ID, example.Owner, path)
}

// countOwned counts the sessions that belong to a key, and gives the first of them.
func countOwned(sessions *session.Manager) (owned int, first session.Info, err error) {
	for after := ""; ; {
		page, next, err := sessions.List(session.Caller{Admin: true}, after, session.ListMax)
		if err != nil {
			return 0, first, err
		}
		for _, info := range page {
			if info.Owner == "" {
				continue
			}
			if owned++; owned == 1 {
				first = info
			}
		}
		if next == "" {
			return owned, first, nil
		}
		after = next
	}
}

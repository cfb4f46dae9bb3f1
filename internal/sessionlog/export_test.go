package sessionlog

import (
	"math/rand/v2"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// ScribbleFree writes into every free page of a folder's database what a commit that never ended may have left there.
func ScribbleFree(dir string, r *rand.Rand) error {
	l, err := (&Folder{dir: dir, files: osFiles{}}).inspect()
	if err != nil {
		return err
	}
	db, err := os.OpenFile(filepath.Join(dir, databaseName), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer db.Close()
	garbage := make([]byte, pageBytes)
	for page := range l.size / pageBytes {
		if l.uses(page) {
			continue
		}
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		if _, err := db.WriteAt(garbage, page*pageBytes); err != nil {
			return err
		}
	}
	return nil
}

// putting writes past the store.
func putting(bucket string, key, value []byte) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put(key, value) }
}

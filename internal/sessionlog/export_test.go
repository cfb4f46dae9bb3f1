package sessionlog

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Long is set where tests may take their time: every one of what others only try some of, on a real disk.
var Long = os.Getenv("LMSERVE_TEST_LONG") != ""

// OpenUnsynced opens a folder for tests in which nobody pulls the plug: its files are not synced.
func OpenUnsynced(dir string) (*Folder, error) {
	if Long {
		return Open(dir, Options{})
	}
	return open(dir, Options{}, environment{files: unsyncedFiles{}, unsynced: true})
}

// swept waits until all is swept that no session refers to.
func swept(f *Folder) error {
	return f.write(background, &write{erase: true, do: func(*bbolt.Tx) error { return nil }})
}

type unsyncedFiles struct{ osFiles }

type unsyncedFile struct{ file }

func (unsyncedFile) Sync() error { return nil }

func (u unsyncedFiles) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	f, err := u.osFiles.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFiles) SyncDir(string) error { return nil }

// ScribbleFree writes into every free page of a folder's database what a commit that never ended may have left there.
func ScribbleFree(dir string, r *rand.Rand) error {
	l, err := (&Folder{dir: dir, environment: environment{files: osFiles{}}}).inspect()
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

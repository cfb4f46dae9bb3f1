package sessionlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A snapshot that leaves the index is erased in two steps. First its file gets a temporary name,
// which is quick and done by the committer: the old name is free for another snapshot at once, and
// the next opening erases what a killed process leaves under temporary names. Then the file is
// overwritten, synced and unlinked, which takes as long as writing it took; nobody waits for that
// but the call that has dropped the snapshot.
//
// The overwriting reaches the state's own blocks only where the file system writes in place (ext4
// without data journalling, XFS, NTFS; not btrfs, ZFS or APFS) and the device does so, too (a
// magnetic disk; not an SSD, which remaps its blocks). docs/formats.md and SECURITY.md say so.

// retire gives the files of snapshots that have left the index temporary names. The paths are of
// those that may be shredded; a backup shreds the others when it ends.
func (f *Folder) retire(names []string) (paths []string, err error) {
	var errs []error
	for _, name := range names {
		now, held, err := f.held.retire(name, func(to string) error {
			return f.files.Rename(f.snapshotPath(name), f.snapshotPath(to))
		})
		switch {
		case err == nil && !held:
			paths = append(paths, f.snapshotPath(now))
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("sessionlog: erasing: %w", err))
		}
	}
	return paths, errors.Join(errs...)
}

func (f *Folder) snapshotPath(name string) string { return f.path(snapshotsFolder + "/" + name) }

// shredAll shreds files of the folder of snapshots and makes their going durable.
func (f *Folder) shredAll(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, f.shred(path))
	}
	if err := f.files.SyncDir(f.path(snapshotsFolder)); err != nil {
		errs = append(errs, fmt.Errorf("sessionlog: erasing snapshots: %w", err))
	}
	return errors.Join(errs...)
}

// shredBlockBytes is how much shred writes at once.
const shredBlockBytes = 1 << 20

// shred overwrites a file with zeros, syncs it and unlinks it. The file is unlinked even if it
// could not be overwritten. A file that is not there is no error.
func (f *Folder) shred(path string) error {
	// A process that was killed as it put lmserve.db in its place may have left it a second name.
	if sameFile(path, f.path(databaseName)) {
		return f.unlink(path)
	}
	overwriting := f.zero(path)
	if errors.Is(overwriting, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(overwriting, f.unlink(path))
}

func sameFile(a, b string) bool {
	one, errOne := os.Stat(a)
	two, errTwo := os.Stat(b)
	return errOne == nil && errTwo == nil && os.SameFile(one, two)
}

func (f *Folder) unlink(path string) error {
	if err := f.files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sessionlog: %w", err)
	}
	return nil
}

// zero overwrites all of a file with zeros and syncs it.
func (f *Folder) zero(path string) (err error) {
	out, err := f.files.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("sessionlog: erasing: %w", err)
	}
	defer func() {
		if closing := out.Close(); err == nil {
			err = closing
		}
	}()
	info, err := out.Stat()
	if err != nil {
		return fmt.Errorf("sessionlog: erasing: %w", err)
	}
	zeros := make([]byte, min(shredBlockBytes, info.Size()))
	for at := int64(0); at < info.Size(); at += int64(len(zeros)) {
		if _, err := out.WriteAt(zeros[:min(int64(len(zeros)), info.Size()-at)], at); err != nil {
			return fmt.Errorf("sessionlog: erasing: %w", err)
		}
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("sessionlog: erasing: %w", err)
	}
	return nil
}

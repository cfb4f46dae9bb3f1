package sessionlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// WriteSnapshot implements Store.
func (f *Folder) WriteSnapshot(ctx context.Context, id string, epoch uint64, at int64, write func(io.Writer) error) error {
	if f.readOnly {
		return fmt.Errorf("sessionlog: %s: %w", f.dir, ErrReadOnly)
	}
	// Before the work, and again when it is entered.
	if err := f.view(func(tx *bbolt.Tx) error { return admit(tx, id, epoch, at) }); err != nil {
		return err
	}
	if err := f.inPlace(); err != nil {
		return err
	}
	unfinished := f.path(snapshotsFolder + "/" + temporaryName(snapshotName(id, at)))
	size, sum, err := f.writeTemporary(ctx, unfinished, write)
	if err != nil {
		return err
	}
	err = f.enter(ctx, id, epoch, Snapshot{Offset: at, Bytes: size, SHA256: sum}, unfinished)
	if err != nil {
		_ = f.shred(unfinished) // if it still has that name
	}
	return err
}

// admit tells whether a snapshot may be written.
func admit(tx *bbolt.Tx, id string, epoch uint64, at int64) error {
	e, err := owned(tx, id, epoch)
	if err != nil {
		return err
	}
	end, err := logEnd(tx, id, e)
	if err != nil {
		return err
	}
	kept, err := snapshots(tx, id)
	if err != nil {
		return err
	}
	for _, s := range kept {
		if s.Offset == at {
			return snapshotExists(id, at)
		}
	}
	if isShared(tx, id, at) { // the file of that name is needed still
		return snapshotExists(id, at)
	}
	return checkSnapshot(id, at, extent{e.start, end}, len(kept))
}

// writeTemporary writes a file to the disk, whole or not at all, and tells its size and SHA-256.
func (f *Folder) writeTemporary(ctx context.Context, path string, write func(io.Writer) error) (size int64, sum [32]byte, err error) {
	out, err := f.files.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, sum, snapshotFailed(path, err)
	}
	hash := sha256.New()
	made := &temporary{sum: &f.usage.temporary, w: out}
	defer made.gone()
	counted := &counter{ctx: ctx, w: io.MultiWriter(made, hash)}
	err = compress(counted, write)
	if err == nil {
		if err = out.Sync(); err != nil && !noSpace(err) {
			f.fail(snapshotFailed(path, err))
		}
	}
	if closing := out.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = f.shred(path) // the first error says more
		if f.Err() != nil {
			return 0, sum, f.Err()
		}
		return 0, sum, snapshotFailed(path, err)
	}
	return counted.n, [32]byte(hash.Sum(nil)), nil
}

// enter gives a finished file its name and its place in the index. The committer does both, so that
// nothing comes between.
func (f *Folder) enter(
	ctx context.Context, id string, epoch uint64, s Snapshot, unfinished string,
) error {
	name := snapshotName(id, s.Offset)
	w := new(write)
	w.do = func(tx *bbolt.Tx) error {
		if err := admit(tx, id, epoch, s.Offset); err != nil {
			return err
		}
		if err := f.files.Rename(unfinished, f.path(snapshotsFolder+"/"+name)); err != nil {
			return fmt.Errorf("sessionlog: %w", err)
		}
		switch err := f.files.SyncDir(f.path(snapshotsFolder)); {
		case errors.Is(err, ErrUnavailable): // the folder was not even opened
			f.files.Remove(f.path(snapshotsFolder + "/" + name))
			return fmt.Errorf("sessionlog: %w", err)
		case err != nil:
			return f.fail(err)
		}
		key := offsetKey(id, s.Offset)
		f.put(tx, snapshotBucket, key, encodeSnapshot(key, &s))
		f.usage.changeFile(1, id, &s)
		return nil
	}
	w.undo = func() { f.files.Remove(f.path(snapshotsFolder + "/" + name)) }
	return f.write(ctx, w)
}

// Snapshots implements Store.
func (f *Folder) Snapshots(ctx context.Context, id string) (found []Snapshot, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = f.view(func(tx *bbolt.Tx) error {
		if _, err := find(tx, id); err != nil {
			return err
		}
		found, err = snapshots(tx, id)
		return err
	})
	return found, err
}

// snapshots reads the index, the oldest first.
func snapshots(tx *bbolt.Tx, id string) (found []Snapshot, err error) {
	index := tx.Bucket([]byte(snapshotBucket))
	for _, key := range keys(tx, snapshotBucket, id) {
		_, at, err := splitKey(key)
		if err != nil {
			return nil, corruptSnapshot(id, -1, err)
		}
		s, err := decodeSnapshot(key, index.Get(key), at)
		if err != nil {
			return nil, corruptSnapshot(id, at, err)
		}
		found = append(found, s)
	}
	return found, nil
}

// snapshot finds one in the index.
func (f *Folder) snapshot(ctx context.Context, id string, at int64) (Snapshot, error) {
	kept, err := f.Snapshots(ctx, id)
	if err != nil {
		return Snapshot{}, err
	}
	for _, s := range kept {
		if s.Offset == at {
			return s, nil
		}
	}
	return Snapshot{}, snapshotNotFound(id, at)
}

// ReadSnapshot implements Store.
func (f *Folder) ReadSnapshot(ctx context.Context, id string, at int64, read func(io.Reader) error) error {
	s, err := f.snapshot(ctx, id, at)
	if err != nil {
		return err
	}
	err = f.readFile(ctx, id, s, read)
	if err != nil { // The snapshot may have left the index meanwhile, and its file been overwritten.
		if _, err := f.snapshot(ctx, id, at); err != nil {
			return err
		}
	}
	return err
}

func (f *Folder) readFile(ctx context.Context, id string, s Snapshot, read func(io.Reader) error) error {
	in, err := verify(ctx, f.files, f.dir, id, s)
	if errors.Is(err, ErrCorrupt) {
		if err := f.inPlace(); err != nil {
			return err
		}
		in, err = verify(ctx, f.files, f.dir, id, s) // the folder may have come back
	}
	if err != nil {
		return err
	}
	defer in.Close()
	return decompress(io.NewSectionReader(in, 0, s.Bytes), read)
}

// DropSnapshot implements Store.
func (f *Folder) DropSnapshot(ctx context.Context, id string, epoch uint64, at int64) error {
	w, retired := new(write), []string(nil)
	w.do = func(tx *bbolt.Tx) error {
		if _, err := owned(tx, id, epoch); err != nil {
			return err
		}
		key := offsetKey(id, at)
		value := tx.Bucket([]byte(snapshotBucket)).Get(key)
		if at < 0 || value == nil {
			return snapshotNotFound(id, at)
		}
		s, err := decodeSnapshot(key, value, at)
		if err != nil { // the shares tell whose file it is
			s = Snapshot{Offset: at, owner: sharedFrom(tx, id, at)}
		}
		file := f.forget(tx, id, &s)
		if file == "" {
			return nil
		}
		w.then = func() (err error) {
			retired, err = f.retire([]string{file})
			return err
		}
		return nil
	}
	return f.writeThenShred(ctx, w, &retired)
}

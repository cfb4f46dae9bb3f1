package sessionlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Backuper is a Store whose content can be had as one file, as of one moment, while it is at work.
type Backuper interface {
	// Backup makes a backup, which the caller closes. ErrBackup if there is one already.
	Backup(ctx context.Context) (*Backup, error)
}

var _ Backuper = (*Folder)(nil)

// Backup is a data folder as of one moment. It holds a copy of lmserve.db, which takes its size on
// the disk, and the snapshot files that lmserve.db refers to, which stay until the backup is
// closed, also those of sessions that are deleted meanwhile. It takes about 300 bytes of memory a
// snapshot. What a process that is killed leaves of it is removed when the folder is opened.
type Backup struct {
	f       *Folder
	id      string
	archive *archive
	copy    string     // name of the copy of lmserve.db; "": there is none yet
	made    *temporary // the copy's bytes; nil: there are none yet
	ended   atomic.Bool
	closing func() error // Close
	end     sync.Once
	err     error // of end
}

// Backup implements Backuper. The copy of lmserve.db is made by a read transaction as long as the
// disk needs: deletions meanwhile wait for its end before they are answered, feeding does not,
// unless the file outgrows its mapping, which bbolt then waits for.
func (f *Folder) Backup(ctx context.Context) (_ *Backup, err error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	if err := f.held.begin(); err != nil {
		return nil, fmt.Errorf("sessionlog: %s: %w", f.dir, err)
	}
	b := &Backup{f: f, id: fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	made := time.Now()
	files, err := b.take(ctx)
	if err != nil {
		return nil, err
	}
	b.archive = newArchive(made, files)
	b.closing = b.Close
	f.endBackup.Store(&b.closing)
	return b, nil
}

// ID names the backup. No two have the same.
func (b *Backup) ID() string { return b.id }

// Made is the moment.
func (b *Backup) Made() time.Time { return b.archive.made }

// Size is that of the file, in bytes.
func (b *Backup) Size() int64 { return b.archive.size }

// Open begins to read.
func (b *Backup) Open() *BackupReader { return &BackupReader{b: b} }

// Close ends the backup, under readers too, and removes what was kept for it alone.
func (b *Backup) Close() error {
	b.end.Do(func() {
		b.ended.Store(true)
		b.f.endBackup.CompareAndSwap(&b.closing, nil)
		b.err = b.shred(b.f.held.end())
		if b.made != nil {
			b.made.gone()
		}
		if b.copy != "" {
			b.err = errors.Join(b.err, b.f.shred(b.f.path(b.copy)))
		}
	})
	return b.err
}

// shred shreds snapshot files that the backup has held.
func (b *Backup) shred(names []string) error {
	paths := make([]string, len(names))
	for n, name := range names {
		paths[n] = b.f.snapshotPath(name)
	}
	return b.f.shredAll(paths)
}

// take makes lmserve.db and the list of snapshots of one moment.
func (b *Backup) take(ctx context.Context) (files []member, err error) {
	db, snapshots := member{name: databaseName}, []member(nil)
	err = safely(func() error {
		tx, err := b.f.db.Begin(false)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if snapshots, err = b.list(ctx, tx); err != nil {
			return err
		}
		return b.copyDatabase(ctx, tx, &db)
	})
	if releasing := b.release(ctx, snapshots); err == nil {
		err = releasing
	}
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, snapshotFailed("a backup of "+b.f.dir, err)
	}
	files = append(files, db)
	for _, s := range snapshots {
		// A file that is damaged is no reason to have no backup: it is missing there, and reported
		// missing where the backup is restored.
		if b.whole(&s) {
			files = append(files, s)
		}
	}
	return files, nil
}

// list gives the snapshots that lmserve.db refers to.
func (b *Backup) list(ctx context.Context, tx *bbolt.Tx) (files []member, err error) {
	listed := map[string]bool{} // forks share files
	err = tx.Bucket([]byte(snapshotBucket)).ForEach(func(key, value []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		id, at, err := splitKey(key)
		if err != nil {
			return nil // damage, which the copy has as well
		}
		s, err := decodeSnapshot(key, value, at)
		if err != nil {
			return nil
		}
		name := path.Join(snapshotsFolder, s.file(id))
		if listed[name] {
			return nil
		}
		listed[name] = true
		files = append(files, member{name: name, size: s.Bytes, sum: s.SHA256})
		return nil
	})
	return files, err
}

// copyDatabase copies what a transaction sees into a file of its own. A folder that is open for
// reading only has nobody who writes, and needs no copy.
func (b *Backup) copyDatabase(ctx context.Context, tx *bbolt.Tx, db *member) error {
	sum := sha256.New()
	to := io.Writer(sum)
	if !b.f.readOnly {
		name := temporaryName(databaseName)
		out, err := b.f.files.OpenFile(b.f.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer out.Close()
		b.copy = name
		b.made = &temporary{sum: &b.f.usage.temporary, w: out}
		to = io.MultiWriter(b.made, sum)
	}
	counted := &counter{ctx: ctx, w: to}
	if b.f.readOnly {
		in, err := b.openMember(db)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(counted, in)
		db.size, db.sum = counted.n, sumOf(sum)
		return err
	}
	if _, err := tx.WriteTo(&metaOrder{w: counted}); err != nil {
		return err
	}
	db.size, db.sum = counted.n, sumOf(sum)
	return nil
}

func sumOf(h hash.Hash) [32]byte { return [32]byte(h.Sum(nil)) }

// release goes on with what these snapshots need, lets go of all else, and does what had to wait
// for the copy.
func (b *Backup) release(ctx context.Context, snapshots []member) error {
	names := make([]string, len(snapshots))
	for n := range snapshots {
		names[n] = path.Base(snapshots[n].name)
	}
	unheld, postponed := b.f.held.copied(names)
	err := b.shred(unheld)
	if len(postponed) == 0 {
		return err
	}
	// Not under ctx: those that wait are other callers.
	erasing := b.f.write(context.WithoutCancel(ctx), &write{
		do: func(*bbolt.Tx) error { return nil }, erase: true,
	})
	for _, w := range postponed {
		if erasing != nil {
			w.err = erasing
		}
		close(w.done)
	}
	return err
}

// whole tells whether a snapshot's file is there, and as long as it should be.
func (b *Backup) whole(m *member) bool {
	in, err := b.openMember(m)
	if err != nil {
		return false
	}
	defer in.Close()
	info, err := in.Stat()
	return err == nil && info.Size() == m.size
}

// openMember opens the file that a member's content comes from.
func (b *Backup) openMember(m *member) (file, error) {
	if m.name == databaseName {
		path := b.f.db.Path() // of a folder with damage, that is what is left of its database
		if b.copy != "" {
			path = b.f.path(b.copy)
		}
		return b.f.files.OpenFile(path, os.O_RDONLY, 0)
	}
	return b.f.held.open(path.Base(m.name), func(name string) (file, error) {
		return b.f.files.OpenFile(b.f.snapshotPath(name), os.O_RDONLY, 0)
	})
}

// metaOrder puts the first two pages of a copy, the meta pages, in the order that bbolt gives them
// in a file that it writes to: page 0 is of even transactions. WriteTo has the newer one first.
type metaOrder struct {
	w     io.Writer
	metas []byte
}

// Write implements io.Writer.
func (o *metaOrder) Write(p []byte) (int, error) {
	missing := 2*pageBytes - len(o.metas)
	if missing == 0 {
		return o.w.Write(p)
	}
	head := p[:min(missing, len(p))]
	o.metas = append(o.metas, head...)
	if len(o.metas) < 2*pageBytes {
		return len(p), nil
	}
	first, second := o.metas[:pageBytes], o.metas[pageBytes:]
	if native.Uint64(first[pageHeaderBytes+48:])%2 == 1 {
		first, second = second, first
	}
	// The number of a page is not part of its checksum.
	second = bytes.Clone(second)
	first = bytes.Clone(first)
	native.PutUint64(first, 0)
	native.PutUint64(second, 1)
	if _, err := o.w.Write(first); err != nil {
		return 0, err
	}
	if _, err := o.w.Write(second); err != nil {
		return 0, err
	}
	n, err := o.w.Write(p[len(head):])
	return len(head) + n, err
}

// BackupReader reads a backup. It is for one goroutine, and is closed.
type BackupReader struct {
	b    *Backup
	at   int64
	open file // the file of the member that was read last
	n    int  // that member
}

// Seek implements io.Seeker.
func (r *BackupReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.b.archive.size
	}
	if offset < 0 {
		return 0, invalid("offset %d in a backup, expected 0 or more", offset)
	}
	r.at = offset
	return offset, nil
}

// Read implements io.Reader. The error is ErrClosed once the backup has ended.
func (r *BackupReader) Read(p []byte) (int, error) {
	a := r.b.archive
	if r.at >= a.size {
		return 0, io.EOF
	}
	n := sort.Search(len(a.members), func(n int) bool { return a.members[n].start > r.at }) - 1
	m := &a.members[n]
	in := r.at - m.start // position within the member
	end := tarBlock + m.padded()
	if n == len(a.members)-1 {
		end += tarTrailBytes
	}
	var err error
	var got int
	switch {
	case in < tarBlock:
		var header []byte
		if header, err = m.header(a.made); err == nil {
			got = copy(p, header[in:])
		}
	case in < tarBlock+m.size:
		p = p[:min(int64(len(p)), tarBlock+m.size-in)]
		got, err = r.content(n, p, in-tarBlock)
	default:
		p = p[:min(int64(len(p)), end-in)]
		clear(p)
		got = len(p)
	}
	// What was read after the end may have been overwritten.
	if r.b.ended.Load() {
		return 0, fmt.Errorf("sessionlog: backup: %w", ErrClosed)
	}
	r.at += int64(got)
	return got, err
}

// content reads from a member's content.
func (r *BackupReader) content(n int, p []byte, at int64) (int, error) {
	if n == 0 {
		return copy(p, r.b.archive.sums[at:]), nil
	}
	m := &r.b.archive.members[n]
	if r.open == nil || r.n != n {
		if err := r.Close(); err != nil {
			return 0, err
		}
		in, err := r.b.openMember(m)
		if err != nil {
			return 0, fmt.Errorf("sessionlog: backup: %w", err)
		}
		r.open, r.n = in, n
	}
	got, err := r.open.ReadAt(p, at)
	if got > 0 {
		return got, nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return 0, fmt.Errorf("sessionlog: backup: %s, byte %d: %w", m.name, at, err)
}

// Close closes what Read has open. The backup stays.
func (r *BackupReader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open = nil
	return err
}

var _ io.ReadSeekCloser = (*BackupReader)(nil)

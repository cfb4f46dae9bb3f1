package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Backup is the storage.Backup of a data folder, as a tar archive. A backup begins by making hard
// links to all files. The links keep the files until the backup is closed, even if their sessions
// are deleted.
type Backup struct {
	f       *Folder
	dir     string
	archive *archive
	ended   atomic.Bool
	end     sync.Once
	err     error
}

// Backup implements storage.Backuper. Writes to the folder wait while Backup makes hard links to
// the files.
func (f *Folder) Backup(ctx context.Context) (_ storage.Backup, err error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	b := &Backup{f: f, dir: filepath.Join(f.path(backupName), id)}
	if !f.backup.CompareAndSwap(nil, b) {
		return nil, fmt.Errorf("storage: %s: %w", f.dir, storage.ErrBackup)
	}
	defer func() {
		if err != nil {
			err = errors.Join(f.fault("a backup of "+f.dir, err), b.Close())
		}
	}()
	files, err := b.link(ctx)
	if err != nil {
		return nil, err
	}
	b.archive = newArchive(time.Now(), files)
	return b, nil
}

func (b *Backup) link(ctx context.Context) (files []member, err error) {
	f := b.f
	f.writing.Lock()
	defer f.writing.Unlock()
	// usable is called again, because the folder may have been closed before the lock was taken
	if err := f.usable(); err != nil {
		return nil, err
	}
	if !f.readOnly {
		if err := f.files.Mkdir(b.dir, 0o700); err != nil {
			return nil, err
		}
	}
	first := map[inode]string{}
	for _, id := range f.completeIDs() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := f.with(ctx, id, func(s *session) error {
			linked, err := b.linkSession(s, first)
			files = append(files, linked...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// linkSession makes hard links to the files of a session. A backup continues despite damage to a
// session, such as a missing file.
func (b *Backup) linkSession(s *session, first map[inode]string) (files []member, err error) {
	link, err := b.linker(s)
	if err != nil {
		return nil, err
	}
	from := b.f.sessionPath(s.id)
	add := func(name string, bytes int64) error {
		l, err := link(name)
		if err != nil {
			_, missing := os.Lstat(filepath.Join(from, name))
			if missing == nil || b.f.inPlace() != nil {
				return err
			}
			b.f.report(corrupt(s, name, -1, missing))
			return nil
		}
		m := member{name: path.Join(sessionsName, s.id, name), size: bytes}
		if had, ok := first[l.file()]; ok && l.links > 1 {
			m.link = had
		} else {
			first[l.file()] = m.name
		}
		files = append(files, m)
		return nil
	}
	// The name of the claim file says where the log ends. A restored backup can thus tell damage at
	// the log's end from a torn append, the partial write of a killed process.
	claim := member{name: path.Join(sessionsName, s.id, claimName(s.epoch, s.end))}
	if s.damage != nil {
		err := b.f.eachFile(s, add)
		if errors.Is(err, storage.ErrCorrupt) {
			// the restored session is also damaged, because its file "head" is missing
			return []member{claim}, nil
		}
		return files, err
	}
	size := int64(0)
	if info, err := os.Lstat(filepath.Join(from, headName)); err == nil {
		size = info.Size()
	}
	err = add(headName, size)
	s.files(func(name string, _ links, bytes int64) {
		if err == nil {
			err = add(name, bytes)
		}
	})
	return append(files, claim), err
}

// eachFile visits all files in the folder of a damaged session, because the store may not know all
// of them. The error is a storage.CorruptError if the folder cannot be read.
func (f *Folder) eachFile(s *session, visit func(name string, bytes int64) error) error {
	entries, err := f.files.ReadDir(f.sessionPath(s.id))
	if err != nil {
		return f.unread(s, "", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !known(e.Name()) ||
			strings.HasSuffix(e.Name(), temporary) {
			continue
		}
		if err := visit(e.Name(), info.Size()); err != nil {
			return err
		}
	}
	return nil
}

// linker returns a function that makes a hard link of a session's file for the backup. If the
// folder is open read-only, no file can change, so the function makes no link.
func (b *Backup) linker(s *session) (func(name string) (links, error), error) {
	from, to := b.f.sessionPath(s.id), b.sessionPath(s.id)
	if b.f.readOnly {
		return func(name string) (links, error) {
			path := filepath.Join(from, name)
			info, err := os.Lstat(path)
			if err != nil {
				return links{}, err
			}
			return linksOf(path, info), nil
		}, nil
	}
	link := func(name string) (links, error) { return b.f.link(filepath.Join(from, name), to) }
	return link, b.f.files.Mkdir(to, 0o700)
}

func (b *Backup) sessionPath(id string) string {
	if b.f.readOnly {
		return b.f.sessionPath(id)
	}
	return filepath.Join(b.dir, id)
}

// Size returns the size of the archive, in bytes.
func (b *Backup) Size() int64 { return b.archive.size }

// ID returns the backup's id, which is unique.
func (b *Backup) ID() string { return filepath.Base(b.dir) }

// Open returns a reader of the archive. Several readers may be open at once.
func (b *Backup) Open() io.ReadSeekCloser { return &reader{b: b} }

// Close ends the backup and removes the links. Reads from its readers then fail. If Close fails,
// the next deletion of a session removes the links, so that they keep no deleted text.
func (b *Backup) Close() error {
	b.end.Do(func() {
		b.ended.Store(true)
		if !b.f.readOnly {
			b.err = b.f.shredTree(b.dir)
		}
		if b.err != nil {
			b.f.mu.Lock()
			b.f.undone = append(b.f.undone, b.dir)
			b.f.mu.Unlock()
		}
		b.f.backup.Store(nil)
	})
	return b.err
}

// reader reads the archive of a backup. Only one goroutine may use it.
type reader struct {
	b    *Backup
	at   int64
	open file
	n    int
	lost *member // the last member that could not be read completely
}

func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.b.archive.size
	}
	if offset < 0 {
		return 0, storage.Invalid("offset %d in a backup, expected 0 or more", offset)
	}
	r.at = offset
	return offset, nil
}

// Read implements io.Reader. After the backup is closed, the error is storage.ErrClosed.
func (r *reader) Read(p []byte) (int, error) {
	a := r.b.archive
	if r.at >= a.size {
		return 0, io.EOF
	}
	n := a.at(r.at)
	m := &a.members[n]
	in := r.at - m.start
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
	case in < tarBlock+m.content():
		p = p[:min(int64(len(p)), tarBlock+m.size-in)]
		got, err = r.content(n, p, in-tarBlock)
	default:
		p = p[:min(int64(len(p)), end-in)]
		clear(p)
		got = len(p)
	}
	// Close of the backup may overwrite its files during this read, so the bytes in p could be
	// wrong.
	if r.b.ended.Load() {
		return 0, fmt.Errorf("storage: backup: %w", storage.ErrClosed)
	}
	r.at += int64(got)
	return got, err
}

func (r *reader) content(n int, p []byte, at int64) (int, error) {
	m := &r.b.archive.members[n]
	if m.name == versionName {
		return copy(p, versionText[at:]), nil
	}
	if r.open == nil || r.n != n {
		if err := r.Close(); err != nil {
			return 0, err
		}
		dir, name := path.Split(m.name)
		in, _, err := r.b.f.open(filepath.Join(r.b.sessionPath(path.Base(dir)), name))
		if err != nil {
			return r.unread(m, p, at, err)
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
	return r.unread(m, p, at, err)
}

// unread fills p with zeros if a file cannot be read because of damage, so that the damage affects
// only one session of the backup. The checksums of the file then show the damage.
func (r *reader) unread(m *member, p []byte, at int64, err error) (int, error) {
	f := r.b.f
	if errors.Is(err, storage.ErrUnavailable) || f.inPlace() != nil || r.b.ended.Load() {
		return 0, fmt.Errorf("storage: backup: %s, byte %d: %w", m.name, at, err)
	}
	if r.lost != m {
		r.lost = m
		f.report(&storage.CorruptError{File: m.name, Byte: at, Offset: -1, What: err.Error(),
			Session: path.Base(path.Dir(m.name))})
	}
	clear(p)
	return len(p), nil
}

// Close closes the file that the reader has opened. It does not close the backup.
func (r *reader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open = nil
	return err
}

var _ storage.Backuper = (*Folder)(nil)

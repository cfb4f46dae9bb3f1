package folder

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Restore makes the data folder dir from a backup. dir must not exist. Damage in a session's file
// is reported, and affects only that session. The error is storage.ErrNoBackup if r is not a
// complete backup.
func Restore(
	ctx context.Context, r io.Reader, dir string, report func(*storage.CorruptError),
) (err error) {
	dir = filepath.Clean(dir)
	if err := atomicfile.Absent(dir); err != nil {
		return fmt.Errorf("storage: restoring to %s: %w", dir, err)
	}
	made := temporaryName(dir)
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	f, err := open(made, Options{}, osFiles{})
	if err != nil {
		return err
	}
	if err := errors.Join(f.extract(&contextReader{ctx, r}), f.Close()); err != nil {
		return err
	}
	if err := Check(ctx, made, report); err != nil {
		return err
	}
	if err := f.files.Rename(made, dir); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	if err := f.files.SyncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return nil
}

func noBackup(format string, args ...any) error {
	return fmt.Errorf("storage: %w: %w", storage.ErrNoBackup, fmt.Errorf(format, args...))
}

// readArchive reads a tar archive to its end, and calls the function `take` for each file of a
// session.
func readArchive(r io.Reader, take func(in io.Reader, h *tar.Header) error) error {
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return noBackup("the backup ends before the file %s: it is incomplete", versionName)
		case err != nil:
			return noBackup("%w", err)
		case h.Name == versionName:
			return readEnd(r, in)
		}
		if err := checkMember(h); err != nil {
			return noBackup("%w", err)
		}
		if err := take(in, h); err != nil {
			return err
		}
	}
}

func checkMember(h *tar.Header) error {
	switch {
	case !sessionFile(h.Name):
		return fmt.Errorf("found %.200q, expected a file of a session, or %s", h.Name, versionName)
	case h.Typeflag == tar.TypeLink && !sessionFile(h.Linkname):
		return fmt.Errorf("%s is a link to %.200q, expected a session's file", h.Name, h.Linkname)
	case h.Typeflag != tar.TypeLink && h.Typeflag != tar.TypeReg:
		return fmt.Errorf("%s is of type %q, expected a file", h.Name, h.Typeflag)
	case isSparse(h):
		return fmt.Errorf("%s is a sparse file (with holes), expected a plain file", h.Name)
	case h.Size > memberMax(h.Name):
		return fmt.Errorf("%s has %d bytes, expected at most %d", h.Name, h.Size, memberMax(h.Name))
	}
	return nil
}

func isSparse(h *tar.Header) bool {
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// memberMax returns the largest size in bytes that a file in an archive may have. Snapshots have no
// limit, because they are not read into memory as a whole.
func memberMax(name string) int64 {
	if strings.HasPrefix(path.Base(name), statePrefix) {
		return math.MaxInt64
	}
	return fileBytes
}

// readEnd reads the last file of an archive, which has the format version. It checks that only the
// zero bytes of the tar format follow.
func readEnd(r io.Reader, in *tar.Reader) error {
	if err := readVersion(in); err != nil {
		return noBackup("%w", err)
	}
	end := make([]byte, tarBlock-len(versionText)+tarTrailBytes)
	if _, err := io.ReadFull(r, end); err != nil {
		return noBackup("the backup ends within its last blocks: %w", err)
	}
	if n := bytes.IndexFunc(end, func(b rune) bool { return b != 0 }); n >= 0 {
		return noBackup("byte %d after %s is not 0", n, versionName)
	}
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return noBackup("found a byte after the end of the archive, expected none")
	case !errors.Is(err, io.EOF):
		return noBackup("%w", err)
	}
	return nil
}

func readVersion(in io.Reader) error {
	version, err := io.ReadAll(io.LimitReader(in, 256))
	if err == nil && string(version) != versionText {
		err = fmt.Errorf("found %.40q, expected %q: the backup is from another version of "+
			"lmserve", version,
			versionText)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", versionName, err)
	}
	return nil
}

// extract restores a backup into the folder, which must be empty.
func (f *Folder) extract(r io.Reader) error {
	dirs := map[string]bool{}
	err := readArchive(r, func(in io.Reader, h *tar.Header) error {
		to := f.path(filepath.FromSlash(h.Name))
		if dir := filepath.Dir(to); !dirs[dir] {
			dirs[dir] = true
			if err := f.files.Mkdir(dir, 0o700); err != nil {
				return f.fault("restoring "+h.Name, err)
			}
		}
		if h.Typeflag == tar.TypeLink {
			_, err := f.linkAs(f.path(filepath.FromSlash(h.Linkname)), to)
			return f.fault("restoring "+h.Name, err)
		}
		return f.extractFile(in, to, h)
	})
	if err != nil {
		return err
	}
	for dir := range dirs {
		if err := f.files.SyncDir(dir); err != nil {
			return f.fault("restoring", err)
		}
	}
	return f.fault("restoring", f.files.SyncDir(f.path(sessionsName)))
}

func (f *Folder) extractFile(in io.Reader, to string, h *tar.Header) error {
	out, err := f.files.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return f.fault("restoring "+h.Name, err)
	}
	_, err = io.Copy(out, in)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.Join(noBackup("%s: %w", h.Name, err), out.Close())
	}
	if err == nil {
		err = out.Sync()
	}
	return f.fault("restoring "+h.Name, errors.Join(err, out.Close()))
}

// CheckBackup reads a backup to its end, and reports invalid files of sessions. It returns an error
// if the backup is incomplete, or cannot be read.
func CheckBackup(ctx context.Context, r io.Reader, report func(*storage.CorruptError)) error {
	return readArchive(&contextReader{ctx, r}, func(in io.Reader, h *tar.Header) error {
		if h.Typeflag == tar.TypeLink {
			return nil
		}
		what, err := verifyFile(in, path.Base(h.Name), h.Size)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return noBackup("%s: %w", h.Name, err)
		}
		if what != nil {
			report(&storage.CorruptError{File: h.Name, Byte: -1,
				Session: path.Base(path.Dir(h.Name)),
				Offset:  -1, What: what.Error()})
		}
		return err
	})
}

// verifyFile checks the content of a session's file. Result what describes the damage, or is nil;
// result err is an error of reading.
func verifyFile(in io.Reader, name string, size int64) (what, err error) {
	if strings.HasPrefix(name, statePrefix) {
		hash := sha256.New()
		if _, err := io.CopyN(hash, in, max(0, size-sha256.Size)); err != nil {
			return nil, err
		}
		want, err := io.ReadAll(in)
		if have := hash.Sum(nil); err == nil && !bytes.Equal(have, want) {
			what = fmt.Errorf("the SHA-256 sum is %x, expected %x", have, want)
		}
		return what, err
	}
	b, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	if name == headName {
		_, _, what = decodeHead(b)
		return what, nil
	}
	for at := 0; at < len(b) && what == nil; {
		var fr frame
		if fr, what = readFrame(b[at:]); what == nil {
			at += int(fr.size)
			what = fr.each(func(int64, storage.Record) error { return nil })
		}
	}
	return what, nil
}

func sessionFile(name string) bool {
	dir, base := path.Split(name)
	id, ok := strings.CutPrefix(strings.TrimSuffix(dir, "/"), sessionsName+"/")
	return ok && storage.CheckID(id) == nil && known(base) && !strings.HasSuffix(base, temporary)
}

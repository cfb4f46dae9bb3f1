package folder

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// Restore makes a data folder of a backup. There must be nothing at dir yet; after an error there is
// still nothing. Damage within a session's file is reported, and stays that session's.
// sessionlog.ErrNoBackup says that what was read is no whole backup.
func Restore(
	ctx context.Context, r io.Reader, dir string, report func(*sessionlog.CorruptError),
) (err error) {
	dir = filepath.Clean(dir)
	if err := absent(dir); err != nil {
		return fmt.Errorf("sessionlog: restoring to %s: %w", dir, err)
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
		return fmt.Errorf("sessionlog: %w", err)
	}
	if err := f.files.SyncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	return nil
}

func noBackup(format string, args ...any) error {
	return fmt.Errorf("sessionlog: %w: %w", sessionlog.ErrNoBackup, fmt.Errorf(format, args...))
}

// readArchive reads a backup, and hands each of its files of sessions to take.
func readArchive(r io.Reader, take func(in io.Reader, h *tar.Header, want member) error) error {
	in := tar.NewReader(r)
	expected, err := readContents(in)
	if err != nil {
		return err
	}
	for _, want := range expected {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		switch {
		case err != nil:
			return noBackup("%w", err)
		case h.Name != want.name:
			return noBackup("%.80q, expected %s", h.Name, want.name)
		case h.Typeflag == tar.TypeLink && !sessionFile(h.Linkname):
			return noBackup("%s is a link to %.80q, expected a session's file", want.name, h.Linkname)
		case h.Typeflag != tar.TypeLink && (h.Typeflag != tar.TypeReg || h.Size != want.size):
			return noBackup("%s: type %q and %d bytes, expected a file of %d", want.name, h.Typeflag, h.Size,
				want.size)
		}
		if want.name == versionName {
			continue
		}
		if err := take(in, h, want); err != nil {
			return err
		}
	}
	// Reading on to the end finds an archive that was cut within its last block.
	if h, err := in.Next(); err == nil {
		return noBackup("%.80q, expected nothing after the files of %s", h.Name, contentsName)
	} else if !errors.Is(err, io.EOF) {
		return noBackup("%w", err)
	}
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return noBackup("a byte after the end of the archive, expected none")
	case !errors.Is(err, io.EOF):
		return noBackup("%w", err)
	}
	return nil
}

// extract reads a backup into the folder, which is empty.
func (f *Folder) extract(r io.Reader) error {
	dirs := map[string]bool{}
	err := readArchive(r, func(in io.Reader, h *tar.Header, want member) error {
		to := f.path(filepath.FromSlash(want.name))
		if dir := filepath.Dir(to); !dirs[dir] {
			dirs[dir] = true
			if err := f.files.Mkdir(dir, 0o700); err != nil {
				return f.fault("restoring "+want.name, err)
			}
		}
		if h.Typeflag == tar.TypeLink {
			_, err := f.linkAs(f.path(filepath.FromSlash(h.Linkname)), to)
			return f.fault("restoring "+want.name, err)
		}
		return f.extractFile(in, to, want)
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

func (f *Folder) extractFile(in io.Reader, to string, want member) error {
	out, err := f.files.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return f.fault("restoring "+want.name, err)
	}
	_, err = io.Copy(out, in)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.Join(noBackup("%s: %w", want.name, err), out.Close())
	}
	if err == nil {
		err = out.Sync()
	}
	return f.fault("restoring "+want.name, errors.Join(err, out.Close()))
}

// CheckBackup reads a backup to its end, and reports files of sessions that do not verify. Everything
// else that is wrong is the error.
func CheckBackup(ctx context.Context, r io.Reader, report func(*sessionlog.CorruptError)) error {
	return readArchive(&contextReader{ctx, r}, func(in io.Reader, h *tar.Header, want member) error {
		if h.Typeflag == tar.TypeLink {
			return nil
		}
		what, err := verifyFile(in, path.Base(want.name), want.size)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return noBackup("%s: %w", want.name, err)
		}
		if what != nil {
			report(&sessionlog.CorruptError{File: want.name, Byte: -1, Session: path.Base(path.Dir(want.name)),
				Offset: -1, What: what.Error()})
		}
		return err
	})
}

// verifyFile reads a file of a session, and says what is wrong with it.
func verifyFile(in io.Reader, name string, size int64) (what, err error) {
	if strings.HasPrefix(name, statePrefix) {
		hash := sha256.New()
		if _, err := io.CopyN(hash, in, max(0, size-sha256.Size)); err != nil {
			return nil, err
		}
		want, err := io.ReadAll(in)
		if have := hash.Sum(nil); err == nil && !bytes.Equal(have, want) {
			what = fmt.Errorf("SHA-256 %x, expected %x", have, want)
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
			what = fr.each(func(int64, sessionlog.Record) error { return nil })
		}
	}
	return what, nil
}

// readContents reads the first file of a backup: what the others are.
func readContents(in *tar.Reader) (files []member, err error) {
	h, err := in.Next()
	if err != nil {
		return nil, noBackup("%w", err)
	}
	if h.Name != contentsName {
		return nil, noBackup("%.80q, expected %s first", h.Name, contentsName)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var m member
		if _, err := fmt.Sscanf(lines.Text(), "%d %s", &m.size, &m.name); err != nil {
			return nil, noBackup("%s: line %.200q, expected a size and a name", contentsName, lines.Text())
		}
		if m.name != versionName && !sessionFile(m.name) {
			return nil, noBackup("%s: file %.200q, expected %s or a file of a session", contentsName, m.name,
				versionName)
		}
		files = append(files, m)
	}
	if err := lines.Err(); err != nil {
		return nil, noBackup("%w", err)
	}
	if len(files) == 0 || files[0].name != versionName {
		return nil, noBackup("%s: expected %s first", contentsName, versionName)
	}
	return files, nil
}

// sessionFile reports whether a name in an archive is that of a session's file.
func sessionFile(name string) bool {
	dir, base := path.Split(name)
	id, ok := strings.CutPrefix(strings.TrimSuffix(dir, "/"), sessionsName+"/")
	return ok && sessionlog.CheckID(id) == nil && known(base) && !strings.HasSuffix(base, temporary)
}

package sessionlog

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// ErrNoBackup says that what was to be restored is no backup, or a part of one, or a damaged one.
var ErrNoBackup = errors.New("not a whole backup")

// CheckBackup reads a backup to its end and compares everything in it with its checksums. Snapshots
// that differ are reported: sessions can be restored without them, as after any damage of a
// snapshot, if the log goes far enough back. Everything else that is wrong is the error.
func CheckBackup(ctx context.Context, r io.Reader, report func(*CorruptError)) error {
	return readBackup(ctx, r, report, func(string) (fileMaker, error) { return nowhere{}, nil })
}

// Restore makes a data folder of a backup. There must be nothing at dir yet; after an error there
// is still nothing, and otherwise the folder is durable. Snapshots that differ from their checksums
// are reported and left out.
func Restore(ctx context.Context, r io.Reader, dir string, report func(*CorruptError)) error {
	return restore(ctx, r, dir, report, environment{files: osFiles{}})
}

func restore(
	ctx context.Context, r io.Reader, dir string, report func(*CorruptError), env environment,
) (err error) {
	dir = filepath.Clean(dir)
	if err := absent(dir); err != nil {
		return fmt.Errorf("sessionlog: restoring to %s: %w", dir, err)
	}
	f := &Folder{dir: fmt.Sprintf("%s.%016x%s", dir, rand.Uint64(), temporarySuffix), environment: env}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(f.dir))
		}
	}()
	if err := f.files.MkdirAll(f.path(snapshotsFolder), 0o700); err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	err = readBackup(ctx, r, report, func(name string) (fileMaker, error) {
		out, err := f.files.OpenFile(f.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		return &made{file: out, remove: func() error { return f.files.Remove(f.path(name)) }}, nil
	})
	if err != nil {
		return err
	}
	if _, err := f.inspect(); err != nil {
		return err
	}
	for _, folder := range []string{f.path(snapshotsFolder), f.dir} {
		if err := f.files.SyncDir(folder); err != nil {
			return fmt.Errorf("sessionlog: %w", err)
		}
	}
	if err := f.files.Rename(f.dir, dir); err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	if err := f.files.SyncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("sessionlog: %w", err)
	}
	return nil
}

// fileMaker takes the content of a file: Keep or Drop ends it.
type fileMaker interface {
	io.Writer
	Keep() error
	Drop() error
}

// made is a file of the folder that is being made.
type made struct {
	file
	remove func() error
}

// Keep implements fileMaker.
func (m *made) Keep() error { return errors.Join(m.file.Sync(), m.file.Close()) }

// Drop implements fileMaker.
func (m *made) Drop() error { return errors.Join(m.file.Close(), m.remove()) }

// nowhere keeps nothing.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Keep() error                 { return nil }
func (nowhere) Drop() error                 { return nil }

// readBackup reads a backup and hands every file in it to what make gives for its name.
func readBackup(
	ctx context.Context, r io.Reader, report func(*CorruptError), make func(name string) (fileMaker, error),
) error {
	in := tar.NewReader(&bound{ctx: ctx, r: r})
	expected, err := readSums(in)
	if err != nil {
		return notBackup(ctx, err)
	}
	for _, want := range expected {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return notBackup(ctx, err)
		}
		if h.Name != want.name || h.Typeflag != tar.TypeReg {
			return notBackup(ctx, fmt.Errorf("%.80q, expected the file %s", h.Name, want.name))
		}
		if err := extract(ctx, in, want, report, make); err != nil {
			return err
		}
	}
	// Reading on to the end finds a file that was cut within its last block.
	if h, err := in.Next(); err == nil {
		return notBackup(ctx, fmt.Errorf("%.80q, expected nothing after the files of %s", h.Name, sumsName))
	} else if !errors.Is(err, io.EOF) {
		return notBackup(ctx, err)
	}
	switch _, err := io.ReadFull(r, new([1]byte)[:]); {
	case err == nil:
		return notBackup(ctx, errors.New("a byte after the end of the archive, expected none"))
	case !errors.Is(err, io.EOF):
		return notBackup(ctx, err)
	}
	return nil
}

// extract reads one file.
func extract(
	ctx context.Context, in io.Reader, want member, report func(*CorruptError),
	make func(name string) (fileMaker, error),
) error {
	out, err := make(want.name)
	if err != nil {
		return fmt.Errorf("sessionlog: restoring %s: %w", want.name, err)
	}
	hash := sha256.New()
	content := io.TeeReader(in, hash)
	if _, err := io.Copy(out, content); err != nil {
		err = errors.Join(err, out.Drop())
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return notBackup(ctx, err)
		}
		return fmt.Errorf("sessionlog: restoring %s: %w", want.name, err)
	}
	if sum := sumOf(hash); sum != want.sum {
		what := fmt.Sprintf("SHA-256 %x, expected %x", sum, want.sum)
		dropping := out.Drop()
		if want.name == databaseName {
			return notBackup(ctx, errors.Join(fmt.Errorf("%s: %s", want.name, what), dropping))
		}
		report(&CorruptError{File: want.name, Byte: -1, Offset: -1, What: what + "; it is left out"})
		return dropping
	}
	if err := out.Keep(); err != nil {
		return fmt.Errorf("sessionlog: restoring %s: %w", want.name, err)
	}
	return nil
}

func notBackup(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("sessionlog: %w: %w", ErrNoBackup, err)
}

// readSums reads the first file of a backup: what the others are.
func readSums(in *tar.Reader) (files []member, err error) {
	h, err := in.Next()
	if err != nil {
		return nil, err
	}
	if h.Name != sumsName {
		return nil, fmt.Errorf("%.80q, expected %s first", h.Name, sumsName)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		b, err := hex.DecodeString(sum)
		if err != nil || len(b) != 32 {
			return nil, fmt.Errorf("%s: line %.200q, expected a SHA-256, two spaces and a name", sumsName, lines.Text())
		}
		folder, base := path.Split(name)
		snapshot := folder == snapshotsFolder+"/" && strings.HasSuffix(base, snapshotSuffix) &&
			filepath.IsLocal(base) && !strings.ContainsAny(base, `/\:`)
		if first := len(files) == 0; first && name != databaseName || !first && !snapshot {
			return nil, fmt.Errorf("%s: file %.200q, expected %s and then snapshots", sumsName, name, databaseName)
		}
		files = append(files, member{name: name, sum: [32]byte(b)})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no files, expected %s", sumsName, databaseName)
	}
	return files, nil
}

// bound reads until its context ends.
type bound struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (b *bound) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.r.Read(p)
}

package folder

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Exporter writes an archive of one session. Call Head, then Append for each record in order, then
// State for the state at the end of the log, then Close. After an error, all later calls return
// that error.
type Exporter struct {
	tar   *tar.Writer
	id    string
	made  time.Time
	begin int64
	open  []byte
}

// NewExporter begins an archive of a session. The files in the archive get the modification time
// made.
func NewExporter(w io.Writer, id string, made time.Time) *Exporter {
	return &Exporter{tar: tar.NewWriter(w), id: id, made: made.Truncate(time.Second)}
}

// Head writes the head of a session. start is the offset at which the session's log begins.
func (e *Exporter) Head(start int64, head []byte) error {
	e.begin = start
	b := encodeHead(headData{ID: e.id, Start: start}, head)
	return e.file(headName, int64(len(b)), bytes.NewReader(b))
}

// Append adds a record at an offset, which must be the end of the previous record.
func (e *Exporter) Append(at int64, r storage.Record) error {
	if len(e.open) >= segmentBytes {
		if err := e.flush(at); err != nil {
			return err
		}
	}
	e.open = append(e.open, frameOf(at, []storage.Record{r})...)
	return nil
}

func (e *Exporter) flush(next int64) error {
	if len(e.open) == 0 {
		return nil
	}
	name := hexName(segmentPrefix, uint64(e.begin))
	err := e.file(name, int64(len(e.open)), bytes.NewReader(e.open))
	e.begin, e.open = next, e.open[:0]
	return err
}

// State writes the state at an offset, in the format of storage.CompressSnapshot.
func (e *Exporter) State(at int64, compressed *io.SectionReader) error {
	if err := e.flush(at); err != nil {
		return err
	}
	hash := sha256.New()
	size := compressed.Size() + sha256.Size
	sum := readerFunc(func(p []byte) (int, error) { return copy(p, hash.Sum(nil)), io.EOF })
	content := io.MultiReader(io.TeeReader(compressed, hash), sum)
	return e.file(hexName(statePrefix, uint64(at)), size, content)
}

// readerFunc is an io.Reader that calls the function. A call must return all data together with
// io.EOF, because the function keeps no position.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Close completes the archive. It does not close the writer.
func (e *Exporter) Close() error {
	if err := e.flush(0); err != nil {
		return err
	}
	if err := e.write(versionName, int64(len(versionText)),
		bytes.NewReader([]byte(versionText))); err != nil {
		return err
	}
	return e.tar.Close()
}

func (e *Exporter) file(name string, size int64, content io.Reader) error {
	return e.write(path.Join(sessionsName, e.id, name), size, content)
}

func (e *Exporter) write(name string, size int64, content io.Reader) error {
	err := e.tar.WriteHeader(&tar.Header{
		Format: tar.FormatGNU, Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600,
		ModTime: e.made,
	})
	if err == nil {
		_, err = io.Copy(e.tar, content)
	}
	return err
}

// exportFiles is the maximum number of files in an archive of one session. It suffices for 64 GiB
// of text.
const exportFiles = 1 << 16

// OpenExport opens an archive of one session for reading. Either an Exporter or the command tar has
// written the archive, with the session's files and the file "version". For other content the error
// is storage.ErrNoBackup. Damage to the session is reported by the session's Err or by a later
// read, not by OpenExport.
func OpenExport(file *io.SectionReader) (*Folder, error) {
	a := &archived{file: file, members: map[string]member{}}
	if err := a.list(); err != nil {
		return nil, noBackup("%w", err)
	}
	f := newFolder("", Options{ReadOnly: true}, a)
	s, err := f.load(a.id)
	if err != nil {
		return nil, err
	}
	f.sessions[a.id], f.complete[a.id] = s, true
	f.usage.add(s)
	return f, nil
}

// archived is the fileSystem of an archive of one session. It implements only the methods that a
// read-only folder calls.
type archived struct {
	fileSystem
	file *io.SectionReader
	id   string
	// by name; member.start is the position of the content, not of the header
	members map[string]member
}

func (a *archived) list() error {
	in, version := tar.NewReader(a.file), false
	for {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF) && !version:
			return fmt.Errorf(
				"the file %s is missing: the archive is not from lmserve, or is incomplete",
				versionName)
		case errors.Is(err, io.EOF):
			return a.ends()
		case err != nil:
			return err
		case h.Typeflag == tar.TypeDir:
			continue
		}
		if h.Name = path.Clean(h.Name); h.Name == versionName {
			version, err = true, readVersion(in)
		} else {
			err = a.add(h)
		}
		if err != nil {
			return err
		}
	}
}

// ends checks that the archive ends as tar writes it: with at least two blocks of zeros, and
// nothing after them.
func (a *archived) ends() error {
	end := make([]byte, tarTrailBytes)
	if n := a.file.Size(); n%tarBlock != 0 {
		return fmt.Errorf("the archive has %d bytes, expected whole blocks of %d bytes: it is "+
			"incomplete", n, tarBlock)
	} else if _, err := a.file.ReadAt(end, max(0, n-tarTrailBytes)); err != nil {
		return err
	}
	rest, err := a.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	behind := io.MultiReader(bytes.NewReader(end), io.NewSectionReader(a.file, rest,
		a.file.Size()-rest))
	for in := bufio.NewReader(behind); ; {
		b, err := in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case b != 0:
			return errors.New("the archive does not end with two blocks of zeros: it is " +
				"incomplete, or more data follows")
		}
	}
}

// add records a file of the archive. The file's content begins at the current position.
func (a *archived) add(h *tar.Header) error {
	at, err := a.file.Seek(0, io.SeekCurrent)
	if err == nil {
		err = checkMember(h)
	}
	if err != nil {
		return err
	}
	of := path.Base(path.Dir(h.Name))
	if a.id == "" {
		a.id = of
	}
	_, twice := a.members[h.Name]
	switch {
	case of != a.id:
		return fmt.Errorf("found %s, expected only files of session %s", h.Name, a.id)
	case twice:
		return fmt.Errorf("%s occurs twice", h.Name)
	case h.Typeflag == tar.TypeLink:
		return fmt.Errorf("%s is a link, expected a file", h.Name)
	case len(a.members) >= exportFiles:
		return fmt.Errorf("the archive has more than %d files", exportFiles)
	}
	a.members[h.Name] = member{name: h.Name, size: h.Size, start: at}
	return nil
}

// ReadDir implements fileSystem. It lists the files of the archive's session.
func (a *archived) ReadDir(string) (entries []fs.DirEntry, _ error) {
	for _, m := range a.members {
		entries = append(entries, fs.FileInfoToDirEntry(m.info()))
	}
	return entries, nil
}

func (a *archived) OpenFile(name string, _ int, _ fs.FileMode) (file, error) {
	m, ok := a.members[filepath.ToSlash(name)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &archivedFile{SectionReader: io.NewSectionReader(a.file, m.start, m.size), m: m}, nil
}

// Space implements fileSystem. It returns 0, 0: the space is not known.
func (a *archived) Space(string) (left, all int64, err error) { return 0, 0, nil }

func (m member) info() fs.FileInfo {
	return (&tar.Header{Typeflag: tar.TypeReg, Name: m.name, Size: m.size, Mode: 0o600}).FileInfo()
}

type archivedFile struct {
	*io.SectionReader
	file // nil: a read-only folder calls only the methods that archivedFile implements
	m    member
}

func (f *archivedFile) Read(p []byte) (int, error) { return f.SectionReader.Read(p) }

func (f *archivedFile) ReadAt(p []byte, at int64) (int, error) {
	return f.SectionReader.ReadAt(p,
		at)
}

func (f *archivedFile) Stat() (fs.FileInfo, error) { return f.m.info(), nil }

func (f *archivedFile) Close() error { return nil }

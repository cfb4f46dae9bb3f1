package sessionlog

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"
)

// A backup is a tar archive (docs/formats.md, "The backup of a data folder"): SHA256SUMS, lmserve.db, and the snapshot
// files. Every header has one block, so that the place of every byte follows from the sizes.
const (
	sumsName      = "SHA256SUMS"
	tarBlock      = 512
	tarTrailBytes = 2 * tarBlock
)

// member is a file of an archive.
type member struct {
	name  string // within the data folder
	size  int64
	sum   [32]byte
	start int64 // position of its header in the archive
}

// padded is the size of a member's content with what fills up its last block.
func (m *member) padded() int64 { return (m.size + tarBlock - 1) / tarBlock * tarBlock }

// header is the block before a member's content.
func (m *member) header(made time.Time) ([]byte, error) {
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{
		Format: tar.FormatGNU, Typeflag: tar.TypeReg,
		Name: m.name, Size: m.size, Mode: 0o600, ModTime: made.Truncate(time.Second),
	})
	if err == nil && b.Len() != tarBlock {
		err = fmt.Errorf("header of %d bytes, expected %d", b.Len(), tarBlock)
	}
	if err != nil {
		return nil, fmt.Errorf("sessionlog: backup: %s: %w", m.name, err)
	}
	return b.Bytes(), nil
}

// archive is where everything stands in a backup. It does not change once it is made.
type archive struct {
	made    time.Time
	sums    []byte // the content of SHA256SUMS
	members []member
	size    int64
}

// newArchive lays out an archive of files, whose places it sets.
func newArchive(made time.Time, files []member) *archive {
	a := &archive{made: made}
	for n := range files {
		a.sums = fmt.Appendf(a.sums, "%x  %s\n", files[n].sum, files[n].name)
	}
	a.members = append([]member{{name: sumsName, size: int64(len(a.sums))}}, files...)
	for n := range a.members {
		m := &a.members[n]
		m.start = a.size
		a.size += tarBlock + m.padded()
	}
	a.size += tarTrailBytes
	return a
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

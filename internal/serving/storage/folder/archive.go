package folder

import (
	"archive/tar"
	"bytes"
	"fmt"
	"sort"
	"time"
)

// An archive is a tar file of a data folder. A backup has all sessions; an export has one session.
// The file "version" comes after the files of the sessions, so that a truncated archive is refused.
// The same holds for a folder that tar has extracted from it. A file that several sessions share is
// stored once; its other occurrences are links. Every tar header is one block long, so that the
// position of every byte follows from the file sizes.
const (
	tarBlock      = 512
	tarTrailBytes = 2 * tarBlock
	gnuNameMax    = 100 // maximum bytes of a name in one block of the GNU format
)

// member is a file of an archive.
type member struct {
	name string
	size int64
	// the name of the member that has the content; empty if this member has the content
	link  string
	start int64
}

// content returns the number of bytes that follow the member's header.
func (m *member) content() int64 {
	if m.link != "" {
		return 0
	}
	return m.size
}

// padded returns the size of the content rounded up to whole tar blocks.
func (m *member) padded() int64 { return (m.content() + tarBlock - 1) / tarBlock * tarBlock }

func (m *member) header(made time.Time) ([]byte, error) {
	h := tar.Header{
		Format: tar.FormatGNU, Typeflag: tar.TypeReg, Name: m.name, Size: m.size, Mode: 0o600,
		ModTime: made.Truncate(time.Second),
	}
	if len(m.name) > gnuNameMax {
		// The older format splits a long name within the block. Its files are smaller than 8 GiB,
		// but only the names of empty claim files are so long.
		h.Format = tar.FormatUSTAR
	}
	if m.link != "" {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, m.link, 0
	}
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&h)
	if err == nil && b.Len() != tarBlock {
		err = fmt.Errorf("the header has %d bytes, expected %d", b.Len(), tarBlock)
	}
	if err != nil {
		return nil, fmt.Errorf("storage: backup: %s: %w", m.name, err)
	}
	return b.Bytes(), nil
}

// archive is the immutable layout of a backup.
type archive struct {
	made    time.Time
	members []member
	size    int64
}

// newArchive lays out an archive: it adds the file "version" after the given files and sets the
// position of each file.
func newArchive(made time.Time, files []member) *archive {
	version := member{name: versionName, size: int64(len(versionText))}
	a := &archive{made: made, members: append(files, version)}
	for n := range a.members {
		m := &a.members[n]
		m.start = a.size
		a.size += tarBlock + m.padded()
	}
	a.size += tarTrailBytes
	return a
}

func (a *archive) at(position int64) int {
	return sort.Search(len(a.members),
		func(n int) bool { return a.members[n].start > position }) - 1
}

package folder

import (
	"archive/tar"
	"bytes"
	"fmt"
	"sort"
	"time"
)

// An archive is a tar file of a data folder: of all of its sessions (a backup) or of one (an
// export). The file version comes after the files of the sessions. So an archive that was cut short
// is refused, both as an archive and, after `tar -x`, as a data folder. A file that several
// sessions share is in the archive once; its other occurrences are links to it. Every header is one
// block long, so that the position of every byte follows from the sizes of the files.
const (
	tarBlock      = 512
	tarTrailBytes = 2 * tarBlock
)

// member is a file of an archive.
type member struct {
	name  string // path in the data folder
	size  int64
	link  string // name of the member with the content; empty if this member has it
	start int64  // position of the member's header in the archive
}

// content returns the size of the content after a member's header.
func (m *member) content() int64 {
	if m.link != "" {
		return 0
	}
	return m.size
}

// padded returns the content's size, rounded up to whole blocks.
func (m *member) padded() int64 { return (m.content() + tarBlock - 1) / tarBlock * tarBlock }

// header returns the tar header, which is the block before a member's content.
func (m *member) header(made time.Time) ([]byte, error) {
	h := tar.Header{
		Format: tar.FormatGNU, Typeflag: tar.TypeReg, Name: m.name, Size: m.size, Mode: 0o600,
		ModTime: made.Truncate(time.Second),
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

// archive is the layout of a backup. It is immutable.
type archive struct {
	made    time.Time
	members []member
	size    int64
}

// newArchive lays out an archive of the files of sessions, and sets their positions.
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

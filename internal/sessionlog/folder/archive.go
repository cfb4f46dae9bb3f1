package folder

import (
	"archive/tar"
	"bytes"
	"fmt"
	"sort"
	"time"
)

// A backup is a tar archive of a data folder: the file contents, which lists the others, the version,
// and the files of the sessions. A file that several sessions have is in the archive once; the others
// are links to it. `tar -x` makes a data folder of it. Every header has one block, so that the place
// of every byte follows from the sizes.
const (
	contentsName  = "contents"
	tarBlock      = 512
	tarTrailBytes = 2 * tarBlock
)

// member is a file of an archive.
type member struct {
	name  string // within the data folder
	size  int64
	link  string // the member that has the content; "": this one
	start int64  // position of its header in the archive
}

// content is the size of what follows a member's header.
func (m *member) content() int64 {
	if m.link != "" {
		return 0
	}
	return m.size
}

// padded is content with what fills up its last block.
func (m *member) padded() int64 { return (m.content() + tarBlock - 1) / tarBlock * tarBlock }

// header is the block before a member's content.
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
		err = fmt.Errorf("a header of %d bytes, expected %d", b.Len(), tarBlock)
	}
	if err != nil {
		return nil, fmt.Errorf("sessionlog: backup: %s: %w", m.name, err)
	}
	return b.Bytes(), nil
}

// archive is where everything is in a backup. It does not change once it is made.
type archive struct {
	made     time.Time
	contents []byte // of the first member
	members  []member
	size     int64
}

// newArchive lays out an archive of files, whose places it sets.
func newArchive(made time.Time, files []member) *archive {
	a := &archive{made: made}
	for n := range files {
		a.contents = fmt.Appendf(a.contents, "%12d %s\n", files[n].size, files[n].name)
	}
	a.members = append([]member{{name: contentsName, size: int64(len(a.contents))}}, files...)
	for n := range a.members {
		m := &a.members[n]
		m.start = a.size
		a.size += tarBlock + m.padded()
	}
	a.size += tarTrailBytes
	return a
}

// at finds the member that holds a position.
func (a *archive) at(position int64) int {
	return sort.Search(len(a.members), func(n int) bool { return a.members[n].start > position }) - 1
}

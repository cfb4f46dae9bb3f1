package sessionlog

import (
	"archive/tar"
	"bytes"
	"fmt"
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

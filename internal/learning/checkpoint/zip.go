package checkpoint

import (
	"archive/zip"
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path"
	"strconv"
	"strings"
)

// archive is a checkpoint as a zip file, the format of torch.save since version 1.6. The record
// NAME/data.pkl is the pickle. Each record NAME/data/KEY is a storage, not compressed.
type archive struct {
	file    io.ReaderAt
	records map[string]*zip.File
	prefix  string // the folder of all records: "NAME/"
}

func openArchive(file io.ReaderAt, size int64) (*archive, error) {
	directory := &bounded{r: file, left: maxDirectoryBytes}
	z, err := zip.NewReader(directory, size)
	if err != nil {
		return nil, malformed("zip archive", err.Error(), "a sound directory")
	}
	// the limit applies only to the directory, which has been read
	directory.left = math.MaxInt64
	if len(z.File) > maxRecords {
		return nil, tooLarge("zip archive", strconv.Itoa(len(z.File))+" records",
			"at most "+strconv.Itoa(maxRecords))
	}
	a := &archive{file: file, records: map[string]*zip.File{}}
	found := 0
	for _, f := range z.File {
		if a.records[f.Name] != nil {
			return nil, malformed("zip archive", "record "+quote(f.Name)+" twice",
				"every name once")
		}
		a.records[f.Name] = f
		if dir, name := path.Split(f.Name); name == "data.pkl" {
			a.prefix = dir
			found++
		}
		if path.Base(f.Name) == "constants.pkl" {
			return nil, unsupported("zip archive", "TorchScript", "what torch.save writes")
		}
	}
	if found != 1 {
		return nil, malformed("zip archive", strconv.Itoa(found)+" records data.pkl", "one")
	}
	return a, a.checkOrder()
}

// bounded is a file of which at most `left` bytes can be read. zip.NewReader loads the whole
// directory into memory, so a hostile directory must not be too long.
type bounded struct {
	r    io.ReaderAt
	left int64
}

func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fmt.Errorf("a zip directory of more than %d MiB", maxDirectoryBytes>>20)
	}
	return b.r.ReadAt(p, off)
}

func (a *archive) checkOrder() error {
	if a.records[a.prefix+"byteorder"] == nil {
		return nil // PyTorch before 2.1 did not record the byte order
	}
	r, err := a.open(a.prefix + "byteorder")
	if err != nil {
		return err
	}
	order := make([]byte, min(r.Size(), quotedMax))
	if _, err := r.ReadAt(order, 0); err != nil && err != io.EOF {
		return fmt.Errorf("checkpoint: reading: %w", err)
	}
	if string(order) != "little" {
		return unsupported("record "+quote(a.prefix+"byteorder"), quote(string(order)), `"little"`)
	}
	return nil
}

// open returns a reader for a record, which must be neither compressed nor encrypted.
func (a *archive) open(name string) (*io.SectionReader, error) {
	where := "record " + quote(name)
	f := a.records[name]
	if f == nil {
		return nil, malformed(where, "no such record", "a record of the archive")
	}
	if f.Method != zip.Store || f.CompressedSize64 != f.UncompressedSize64 || f.Flags&1 != 0 {
		return nil, malformed(where, "a compressed or encrypted record",
			"a record as torch.save writes it, neither compressed nor encrypted")
	}
	at, err := f.DataOffset()
	if err != nil {
		return nil, malformed(where, err.Error(), "a sound record")
	}
	var last [1]byte
	size := int64(f.UncompressedSize64)
	if size < 0 || at > 1<<62 || size > 1<<62 {
		return nil, malformed(where, "a size of "+strconv.FormatUint(f.UncompressedSize64, 10),
			"a size")
	}
	if size > 0 {
		if _, err := a.file.ReadAt(last[:], at+size-1); err != nil {
			return nil, malformed(where, "the end of the file within the record",
				strconv.FormatInt(size, 10)+" bytes")
		}
	}
	return io.NewSectionReader(a.file, at, size), nil
}

func (a *archive) load() (any, error) {
	data, err := a.open(a.prefix + "data.pkl")
	if err != nil {
		return nil, err
	}
	storages := map[string]*storage{}
	return unpickle(bufio.NewReader(data), func(id []any) (any, error) {
		s, err := storageID(id)
		if err != nil {
			return nil, err
		}
		if known := storages[s.key]; known != nil {
			return known, sameStorage(known, s)
		}
		record, err := a.open(a.prefix + "data/" + s.key)
		if err != nil {
			return nil, err
		}
		if want := s.count * int64(s.element.size); record.Size() != want {
			return nil, malformed("storage "+quote(s.key), strconv.FormatInt(record.Size(), 10)+
				" bytes",
				fmt.Sprintf("%d for %d elements of %s", want, s.count, s.element.class))
		}
		s.data = &checked{SectionReader: record, name: s.key,
			sum: a.records[a.prefix+"data/"+s.key].CRC32}
		storages[s.key] = s
		return s, nil
	})
}

func sameStorage(known, again *storage) error {
	if known.element != again.element || known.count != again.count {
		return malformed("storage "+quote(known.key),
			fmt.Sprintf("%d elements of %s", again.count, again.element.class),
			fmt.Sprintf("%d elements of %s, as in an earlier description of the "+
				"storage", known.count, known.element.class))
	}
	return nil
}

// checked reads a record. The first read verifies the checksum of the whole record.
type checked struct {
	*io.SectionReader
	name string
	sum  uint32
	done bool
}

func (c *checked) ReadAt(p []byte, off int64) (int, error) {
	if !c.done {
		h := crc32.NewIEEE()
		if _, err := io.Copy(h, io.NewSectionReader(c.SectionReader, 0, c.Size())); err != nil {
			return 0, err
		}
		if h.Sum32() != c.sum {
			return 0, malformed("storage "+quote(c.name), fmt.Sprintf("checksum %08x", h.Sum32()),
				fmt.Sprintf("%08x, as the archive says", c.sum))
		}
		c.done = true
	}
	return c.SectionReader.ReadAt(p, off)
}

func isArchive(head []byte) bool { return strings.HasPrefix(string(head), "PK\x03\x04") }

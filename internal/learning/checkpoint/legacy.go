package checkpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"

	"github.com/nlpodyssey/gopickle/types"
)

// Before version 1.6, torch.save wrote a sequence of pickles: a magic number, a version, facts
// about the machine, the object, and storage keys. A storage is an array of elements. The storages
// follow in the order of the keys, each after the number of its elements in 8 bytes.
const (
	legacyMagic   = "119547037146038801333356"
	legacyVersion = 1001
)

// loadLegacy returns the object from a file in the format of torch.save before PyTorch 1.6.
func loadLegacy(file io.ReaderAt, size int64) (any, error) {
	at := &counting{r: io.NewSectionReader(file, 0, size)}
	in := bufio.NewReader(at)
	if err := legacyHead(in); err != nil {
		return nil, err
	}
	storages := map[string]*storage{}
	object, err := unpickle(in, func(id []any) (any, error) {
		// a module's id has four elements: "module", the class, and the path and the text of the
		// source file
		if len(id) == 4 && id[0] == "module" {
			return id[1], nil
		}
		s, err := storageID(id)
		if err != nil {
			return nil, err
		}
		if known := storages[s.key]; known != nil {
			return known, sameStorage(known, s)
		}
		storages[s.key] = s
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	keys, err := unpickle(in, nil)
	if err != nil {
		return nil, err
	}
	list, ok := keys.(*types.List)
	if !ok || list.Len() != len(storages) {
		return nil, malformed("keys of the storages", describe(keys),
			fmt.Sprintf("a list of %d keys, the number of storages in the object", len(storages)))
	}
	return object, findStorages(file, size, at.n-int64(in.Buffered()), *list, storages)
}

func legacyHead(in *bufio.Reader) error {
	magic, err := unpickle(in, nil)
	if err != nil {
		return err
	}
	if n, ok := magic.(*big.Int); !ok || n.String() != legacyMagic {
		return malformed("file", "a pickle of "+describe(magic),
			"what torch.save writes: a zip archive, or the magic number of the form before "+
				"PyTorch 1.6")
	}
	version, err := unpickle(in, nil)
	if err != nil {
		return err
	}
	if version != legacyVersion {
		return malformed("version", describe(version), strconv.Itoa(legacyVersion))
	}
	object, err := unpickle(in, nil)
	if err != nil {
		return err
	}
	machine, err := stringKeys(object)
	if err == nil && machine["little_endian"] != true {
		err = unsupported("little_endian", "not true", "elements with their low byte first")
	}
	return err
}

// findStorages finds the data of the storages, which are stored one after the other from offset at
// of the file.
func findStorages(
	file io.ReaderAt, size, at int64, keys []any, storages map[string]*storage,
) error {
	for _, k := range keys {
		key, _ := k.(string)
		s := storages[key]
		if s == nil || s.data != nil {
			return malformed("keys of the storages", describe(k)+" "+quote(key),
				"the key of every storage once")
		}
		var prefix [8]byte
		if _, err := file.ReadAt(prefix[:], at); err != nil {
			return endOfFile(err, key, at)
		}
		if n := binary.LittleEndian.Uint64(prefix[:]); n != uint64(s.count) {
			return &Error{Where: "storage " + quote(key), Offset: at, Kind: ErrFormat,
				Found: strconv.FormatUint(n, 10) + " elements", Want: strconv.FormatInt(s.count,
					10)}
		}
		at += int64(len(prefix))
		bytes := s.count * int64(s.element.size)
		if bytes > size-at {
			return endOfFile(io.EOF, key, at)
		}
		s.data = io.NewSectionReader(file, at, bytes)
		at += bytes
	}
	if at != size {
		return &Error{Where: "file", Offset: at, Found: strconv.FormatInt(size-at, 10) +
			" bytes more",
			Want: "the end of the file", Kind: ErrFormat}
	}
	return nil
}

func endOfFile(err error, key string, at int64) error {
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("checkpoint: reading: %w", err)
	}
	return &Error{Where: "storage " + quote(key), Offset: at, Found: "the end of the file",
		Want: "the elements of the storage", Kind: ErrFormat}
}

type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

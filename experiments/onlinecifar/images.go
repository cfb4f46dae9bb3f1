package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/lmserve/lmserve/experiments/tape"
)

const (
	classCount  = 100
	streamCount = 500 // images of each class in the data stream
	heldCount   = 100 // images of each class for tests only
)

// A set has the images of 100 classes. An image has all red values, then all green values, then all
// blue values. Each color is stored row by row.
type set struct {
	side   int
	stream [classCount][][]byte
	held   [classCount][][]byte
}

// The constants describe the binary version of CIFAR-100. Its author publishes the archive's MD5
// sum at cs.toronto.edu/~kriz/cifar.html: 03b5dce01913d631647c71ecec9e9cb8. The SHA-256 sum of the
// archive is also in GoMLX, MLDatasets.jl and Torchvision for Ruby. Torchvision for Ruby also has
// the sums of the two files.
const (
	archiveName = "cifar-100-binary.tar.gz"
	archiveSum  = "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
	cifarSide   = 32
)

type part struct {
	Name, Sum string
	PerClass  int
}

var parts = []part{
	{"train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29", streamCount},
	{"test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a", heldCount},
}

// readCIFAR reads the archive in dir or, without an archive, the unpacked files. It checks the
// SHA-256 sums.
func readCIFAR(dir string) (*set, error) {
	files, err := unpack(filepath.Join(dir, archiveName))
	if errors.Is(err, fs.ErrNotExist) {
		files = map[string][]byte{}
		for _, p := range parts {
			data, err := os.ReadFile(filepath.Join(dir, p.Name))
			if err != nil {
				return nil, fmt.Errorf("expected the file %s, or the files %s and %s, in "+
					"directory %s: %w",
					archiveName, parts[0].Name, parts[1].Name, dir, err)
			}
			if err := check(p.Name, data, p.Sum); err != nil {
				return nil, err
			}
			files[p.Name] = data
		}
	} else if err != nil {
		return nil, err
	}
	s := &set{side: cifarSide}
	for i, p := range parts {
		classes, err := parse(files[p.Name], p)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			s.stream = classes
		} else {
			s.held = classes
		}
	}
	return s, nil
}

func check(name string, data []byte, want string) error {
	if found := fmt.Sprintf("%x", sha256.Sum256(data)); found != want {
		return fmt.Errorf("%s has the SHA-256 sum %s, want %s: download the file again",
			name, found, want)
	}
	return nil
}

// unpack returns the files in the archive, keyed by their base names. It checks the SHA-256 sum of
// the archive.
func unpack(path string) (map[string][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	z, err := gzip.NewReader(io.TeeReader(f, sum))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	files, r := map[string][]byte{}, tar.NewReader(z)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if files[filepath.Base(h.Name)], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	// the tar reader leaves some bytes unread, and the sum must include them
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	if found := fmt.Sprintf("%x", sum.Sum(nil)); found != archiveSum {
		return nil, fmt.Errorf("%s has the SHA-256 sum %s, want %s: download the file again",
			path, found, archiveSum)
	}
	return files, nil
}

// parse reads the images of a file. A record has a coarse label, a fine label and the pixels. The
// fine labels are the classes.
func parse(data []byte, p part) (classes [classCount][][]byte, err error) {
	const record = 2 + 3*cifarSide*cifarSide
	if want := record * p.PerClass * classCount; len(data) != want {
		return classes, fmt.Errorf("%s has %d bytes, want %d", p.Name, len(data), want)
	}
	for ; len(data) > 0; data = data[record:] {
		label := data[1]
		if label >= classCount {
			return classes, fmt.Errorf("%s has the fine label %d, want at most %d",
				p.Name, label, classCount-1)
		}
		classes[label] = append(classes[label], data[2:record])
	}
	for label, images := range classes {
		if len(images) != p.PerClass {
			return classes, fmt.Errorf("%s has %d images of label %d, want %d",
				p.Name, len(images), label, p.PerClass)
		}
	}
	return classes, nil
}

// split returns 40 random classes for training, 30 for development and 30 for test. The split of
// the paper is unknown, because the paper's link to the split is only a placeholder.
func split(seed uint64) (train, dev, test []int) {
	order := rand.New(rand.NewPCG(seed, 40)).Perm(classCount)
	return order[:40], order[40:70], order[70:]
}

// batch returns images as Maps without gradients, with pixel values scaled to the range from -2 to
// 2.
func (s *set) batch(images [][]byte) Maps {
	pixels := s.side * s.side
	value := make([]float64, 3*len(images)*pixels)
	for i, image := range images {
		for k, v := range image {
			value[(k/pixels*len(images)+i)*pixels+k%pixels] = (float64(v) - 127.5) / 63.75
		}
	}
	return Maps{tape.Const(3, len(images)*pixels, value), len(images), s.side}
}

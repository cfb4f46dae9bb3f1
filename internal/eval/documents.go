package eval

import (
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// file is a document that is to be scored.
type file struct {
	path string // on this machine
	name string // below the directory, with slashes
	size int64  // bytes to be scored
}

// list finds the non-empty files below dir, in path order, except those whose name, or whose folder's name, begins with a dot. Links to
// files count as files, links to directories are not followed.
func list(dir string, maxBytes int64) (files []file, err error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if path == root && !info.IsDir() {
			return fmt.Errorf("%s is a file, expected a directory of documents", dir)
		}
		if !info.Mode().IsRegular() || info.Size() == 0 {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		size := info.Size()
		if maxBytes > 0 {
			size = min(size, maxBytes)
		}
		files = append(files, file{path, filepath.ToSlash(name), size})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("eval: %s: no documents found, expected files with text", dir)
	}
	return files, nil
}

// domain is the first folder of a document's name, "." if it lies in none.
func domain(name string) string {
	if folder, _, ok := strings.Cut(name, "/"); ok {
		return folder
	}
	return "."
}

// deal shuffles the files: the order is a function of their number and the seed.
func deal(files []file, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
}

func (f file) read() ([]byte, error) {
	r, err := os.Open(f.path)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	defer r.Close()
	text := make([]byte, f.size)
	if n, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("eval: %s: read %d bytes of %d: %w", f.path, n, f.size, err)
	}
	return text, nil
}

func totalSize(files []file) (n int64) {
	for _, f := range files {
		n += f.size
	}
	return n
}

// Texts reads the documents that Directory would score, in path order.
func Texts(dir string, maxBytes int64) (texts [][]byte, err error) {
	files, err := list(dir, maxBytes)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := f.read()
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

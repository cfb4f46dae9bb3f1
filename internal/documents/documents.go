// Package documents lists the texts of a directory. Each file is a document, and its first folder
// is the document's domain.
package documents

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// File is a readable document.
type File struct {
	Path string
	Name string // path relative to the directory, with slashes
	Size int64  // number of bytes that Read returns
}

// List returns the non-empty files below dir, in the order of their paths. It skips files and
// folders whose names begin with a dot. Links to files count as files; links to directories are not
// followed. If limit is above 0, documents are cut to at most limit bytes. Errors name the file or
// directory.
func List(dir string, limit int64) (files []File, err error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path) // Stat follows links to files.
		if err != nil {
			return err
		}
		if path == root && !info.IsDir() {
			return fmt.Errorf("%s is a file, expected a directory of text files", dir)
		}
		if !info.Mode().IsRegular() || info.Size() == 0 {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		size := info.Size()
		if limit > 0 {
			size = min(size, limit)
		}
		files = append(files, File{path, filepath.ToSlash(name), size})
		return nil
	})
	return files, err
}

// Contains reports whether List would list the file at path, or files in a folder at path, among
// the files below dir. The path need not exist. Links in both paths are followed. Contains returns
// false for an empty path.
func Contains(dir, path string) bool {
	return path != "" && (below(dir, path, filepath.Abs) || below(dir, path, resolve))
}

// below reports whether path is in dir, and no name on the way begins with a dot. Both paths are
// first made absolute by the given function.
func below(dir, path string, absolute func(string) (string, error)) bool {
	from, err := absolute(dir)
	if err != nil {
		return false
	}
	to, err := absolute(path)
	if err != nil {
		return false
	}
	inside, err := filepath.Rel(from, to)
	return err == nil && (inside == "." ||
		!strings.Contains("/"+filepath.ToSlash(inside), "/."))
}

// resolve returns the absolute path without links. The end of the path need not exist.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	target, err := filepath.EvalSymlinks(path)
	if parent := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && parent != path {
		target, err = resolve(parent)
		return filepath.Join(target, filepath.Base(path)), err
	}
	return target, err
}

// Read returns the first Size bytes of the file.
func (f File) Read() ([]byte, error) {
	r, err := os.Open(f.Path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text := make([]byte, f.Size)
	if n, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("%s: read only %d of %d bytes: %w", f.Path, n, f.Size, err)
	}
	return text, nil
}

// Domain returns the first folder of a document's name, or "." if the name has no folder.
func Domain(name string) string {
	if folder, _, ok := strings.Cut(name, "/"); ok {
		return folder
	}
	return "."
}

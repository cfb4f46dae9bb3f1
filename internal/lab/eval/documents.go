package eval

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/documents"
)

func list(dir string, maxBytes int64) ([]documents.File, error) {
	files, err := documents.List(dir, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("eval: %s: no documents found, expected files with text", dir)
	}
	return files, nil
}

func read(f documents.File) ([]byte, error) {
	text, err := f.Read()
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	return text, nil
}

// Texts returns the documents that Directory would score, in path order.
func Texts(dir string, maxBytes int64) (texts [][]byte, err error) {
	files, err := list(dir, maxBytes)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := read(f)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lmserve/lmserve/internal/serving/reload"
	"github.com/lmserve/lmserve/weights"
)

// Form is the file format of a checkpoint.
type Form string

// The supported file formats.
const (
	FormZip         Form = "PyTorch, zip"
	FormLegacy      Form = "PyTorch, before 1.6"
	FormSafetensors Form = "safetensors"
)

// Checkpoint is an open checkpoint. Open reads the data of tensors only from safetensors files.
type Checkpoint struct {
	Form Form
	// Vocabulary is the path of the vocabulary file in the folder; "" if there is none.
	Vocabulary string

	tensors  []Tensor
	settings Settings
	hugging  bool
	file     io.Closer
}

// Close closes the file of the checkpoint.
func (c *Checkpoint) Close() error { return c.file.Close() }

// Names of a checkpoint's files in a folder, preferred names first.
var (
	weightFiles     = []string{"model.safetensors", "pytorch_model.bin", "model.pt"}
	vocabularyFiles = []string{"vocab.txt", "vocab.bin", "vocab.pkl"}
)

const huggingConfigFile = "config.json"

// Open opens a checkpoint. The path is a file of weights, or a folder with model.safetensors,
// pytorch_model.bin or model.pt. If the folder of the weights has Hugging Face's config.json, Open
// also reads the settings in it.
func Open(path string) (*Checkpoint, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	dir, vocabulary := filepath.Dir(path), ""
	if info.IsDir() {
		dir = path
		if path = firstOf(dir, weightFiles); path == "" {
			err := malformed("folder", "none of "+strings.Join(weightFiles, ", "), "one of them")
			return nil, inFile(err, dir)
		}
		vocabulary = firstOf(dir, vocabularyFiles)
	}
	var settings Settings
	hugging := false
	if config := firstOf(dir, []string{huggingConfigFile}); config != "" {
		if settings, hugging, err = readHuggingConfig(config); err != nil {
			return nil, err
		}
	}
	c, err := openFile(path)
	if err != nil {
		return nil, inFile(err, path)
	}
	c.Vocabulary, c.hugging = vocabulary, hugging
	c.settings = c.settings.over(settings)
	return c, nil
}

func firstOf(dir string, names []string) string {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path // if Stat failed otherwise, so will opening
		}
	}
	return ""
}

func openFile(path string) (*Checkpoint, error) {
	f, err := reload.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	c, err := readFile(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	c.file = f
	return c, nil
}

func readFile(f *os.File) (*Checkpoint, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return openReader(f, info.Size())
}

// openReader detects the file format and reads the checkpoint. Only from safetensors files does it
// also read the data of the tensors.
func openReader(f io.ReaderAt, size int64) (*Checkpoint, error) {
	head := make([]byte, 16)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("checkpoint: reading: %w", err)
	}
	head = head[:n]
	// A safetensors file begins with the header's length in 8 bytes. The header begins with a
	// brace.
	if n > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= weights.MaxHeaderBytes {
		return readSafetensors(io.NewSectionReader(f, 0, size))
	}
	form, object, err := loadObject(f, size, head)
	if err != nil {
		return nil, err
	}
	s, err := stateOf(object)
	if err != nil {
		return nil, err
	}
	if len(s.tensors) > weights.MaxTensors {
		return nil, tooLarge("state", fmt.Sprintf("%d tensors", len(s.tensors)),
			fmt.Sprintf("at most %d", weights.MaxTensors))
	}
	if err := checkReads(s.tensors); err != nil {
		return nil, err
	}
	settings, err := settingsOf(s.attributes)
	return &Checkpoint{Form: form, tensors: s.tensors, settings: settings}, err
}

func loadObject(f io.ReaderAt, size int64, head []byte) (Form, any, error) {
	if isArchive(head) {
		a, err := openArchive(f, size)
		if err != nil {
			return FormZip, nil, err
		}
		object, err := a.load()
		return FormZip, object, err
	}
	object, err := loadLegacy(f, size)
	return FormLegacy, object, err
}

func readSafetensors(r io.Reader) (*Checkpoint, error) {
	f, err := weights.Read(r, weights.Limits{})
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Form: FormSafetensors}
	for _, t := range f.Tensors {
		c.tensors = append(c.tensors, Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape,
			Load: func() ([]byte, error) { return t.Data, nil }})
	}
	return c, nil
}

// Package checkpoint reads Transformer-XL checkpoints that PyTorch or Hugging Face's library wrote,
// and makes the weights of a model of them. PyTorch's checkpoints are pickles, programs for a small
// machine that may name any function of Python. Nothing of that kind runs here: every pickle is
// read through once before it is taken apart, and whatever names a class outside a short list, or
// wants more memory than a checkpoint needs, is refused. Only the command `lmserve convert` imports
// the package. docs/models.md describes what it reads.
package checkpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/weights"
)

// Limits of a checkpoint. They bound the memory that a hostile file can make the reader take.
const (
	// maxPickleBytes bounds one pickle, which holds names and shapes, or a vocabulary, but no
	// weights. The vocabulary of WikiText-103, 267,735 words, has 9 MB.
	maxPickleBytes = 64 << 20
	// maxPickleMemory bounds an estimate from above of the memory that the objects of one pickle
	// take. The vocabulary of WikiText-103 is estimated at half of it.
	maxPickleMemory = 1 << 30
	// weightsMax bounds a storage as a file of weights bounds its data.
	weightsMax = weights.MaxDataBytes
	// maxLineBytes bounds the name of a class, or of its module.
	maxLineBytes = 256
	// maxRecords bounds the records of a zip archive: one a storage, and a few more.
	maxRecords = weights.MaxTensors + 1<<10
	// maxDirectoryBytes bounds the directory of a zip archive; that of maxRecords has less.
	maxDirectoryBytes = 16 << 20
	// maxModuleDepth bounds how deeply modules may be nested; the reference nests five deep.
	maxModuleDepth = 16
	// maxModuleEntries bounds what a pickled model consists of: modules, parameters and buffers,
	// each counted once for every place where it stands.
	maxModuleEntries = 1 << 17
	// maxNameBytes bounds the name of a tensor.
	maxNameBytes = 256
	// maxReads bounds how many times the tensors together may read the storages. Tied weights are
	// read twice, and once more for every name that a checkpoint has of them.
	maxReads = 8
	// maxConfigBytes bounds Hugging Face's config.json.
	maxConfigBytes = 1 << 20
)

// What can be wrong with a checkpoint. Failures of the disk are none of these: they are passed on
// as they came.
var (
	// ErrFormat: the content breaks the format, or is none that is read here.
	ErrFormat = errors.New("not a well-formed checkpoint")
	// ErrClass: the pickle names a class or a function that is not on the list of those allowed.
	ErrClass = errors.New(
		"refused: a checkpoint of weights needs no such class, and nothing was run")
	// ErrTooLarge: a limit is exceeded.
	ErrTooLarge = errors.New("over the limit")
	// ErrUnsupported: the checkpoint is sound, but of a model that this program does not have.
	ErrUnsupported = errors.New("not supported")
)

// Error says where a checkpoint is wrong, what was found there and what was expected. Offset counts
// the bytes of the pickle, or of the file where no pickle is read.
type Error = weights.Error

// inFile names the file in an error of this package that names none yet.
func inFile(err error, name string) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		e.File = name
	}
	return err
}

// malformed is an error of the format that has no offset.
func malformed(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrFormat}
}

// unsupported is the error of a model that this program does not have.
func unsupported(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrUnsupported}
}

// tooLarge is the error of a limit that is exceeded.
func tooLarge(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrTooLarge}
}

// quotedMax is the most bytes of a text from a file that an error repeats.
const quotedMax = 80

// quote quotes text from a file, cut short: it may have megabytes.
func quote(s string) string {
	if len(s) > quotedMax {
		return strconv.Quote(s[:quotedMax]) + "..."
	}
	return strconv.Quote(s)
}

// shapeText writes a shape as "[2,3]".
func shapeText(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ",") }

// Package checkpoint reads Transformer-XL checkpoints by PyTorch or Hugging Face's library, and
// converts them to the weights of a model. PyTorch's checkpoints are pickles: programs for a stack
// machine that may call any Python function.
//
// This package executes no Python code. It checks a whole pickle before it creates objects. It
// refuses a pickle that names a class outside a short list, or that needs more memory than a
// checkpoint needs. Only the command `lmserve convert` imports the package. docs/models.md
// describes the supported forms.
package checkpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/weights"
)

// These limits bound the memory that a hostile file can make the reader use.
const (
	// maxPickleBytes limits one pickle, which has names and shapes, or a vocabulary, but no
	// weights. For comparison, the vocabulary of WikiText-103 (267,735 words) has 9 MB.
	maxPickleBytes = 64 << 20
	// maxPickleMemory limits an upper estimate of the memory of one pickle's objects. The estimate
	// for the vocabulary of WikiText-103 is half of this limit.
	maxPickleMemory = 1 << 30
	// weightsMax limits the bytes of a storage. The same limit applies to the data of a weights
	// file.
	weightsMax = weights.MaxDataBytes
	// maxLineBytes limits the length of a class name or module name in a pickle.
	maxLineBytes = 256
	// maxRecords limits the records of a zip archive: one for each storage, and a few more.
	maxRecords = weights.MaxTensors + 1<<10
	// maxDirectoryBytes limits the directory of a zip archive. A directory of maxRecords records is
	// smaller.
	maxDirectoryBytes = 16 << 20
	// maxModuleDepth limits how deeply modules may be nested. In the reference implementation they
	// nest five deep.
	maxModuleDepth = 16
	// maxModuleEntries limits the parts of a pickled model: modules, parameters and buffers, each
	// counted in every place that uses it.
	maxModuleEntries = 1 << 17
	// maxNameBytes limits the length of a tensor's name.
	maxNameBytes = 256
	// maxReads limits how many bytes all tensors together may read, as a multiple of the total size
	// of the storages. A valid checkpoint may need more than 1, since tied weights are read several
	// times.
	maxReads = 8
	// maxConfigBytes limits the size of Hugging Face's config.json.
	maxConfigBytes = 1 << 20
)

// These errors are faults of a checkpoint. Disk errors are returned unchanged, and wrap none of
// these errors.
var (
	// ErrFormat says that the content violates the format, or that the format is not supported.
	ErrFormat = errors.New("not a well-formed checkpoint")
	// ErrClass says that the pickle names a class or a function that is not allowed.
	ErrClass = errors.New(
		"refused: a checkpoint of weights does not need this class; no code was run")
	// ErrTooLarge says that a limit is exceeded.
	ErrTooLarge = errors.New("over the limit")
	// ErrUnsupported says that the checkpoint is valid, but that its model is not supported.
	ErrUnsupported = errors.New("not supported")
)

// Error is a fault of a checkpoint: where it is, what was found and what was expected. Offset is a
// position in bytes, in the pickle or, outside pickles, in the file.
type Error = weights.Error

// inFile sets the file name in an Error without a file name. Other errors stay unchanged.
func inFile(err error, name string) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		e.File = name
	}
	return err
}

func malformed(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrFormat}
}

func unsupported(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrUnsupported}
}

func tooLarge(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrTooLarge}
}

// quotedMax is the maximum number of bytes of a file's text that an error quotes.
const quotedMax = 80

// quote quotes text from a file for an error. Long text is shortened.
func quote(s string) string {
	if len(s) > quotedMax {
		return strconv.Quote(s[:quotedMax]) + "..."
	}
	return strconv.Quote(s)
}

// shapeText formats a shape as "[2,3]".
func shapeText(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ",") }

// Package checkpoint reads Transformer-XL checkpoints by PyTorch or Hugging Face's library, and
// converts them to the weights of a model. PyTorch's checkpoints are pickles, programs for a small
// machine that may name any function of Python.
//
// This package runs no such program. It reads every pickle through once before it makes objects. It
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

// Limits of a checkpoint. They limit how much memory a hostile file can make the reader use.
const (
	// maxPickleBytes limits one pickle, which has names and shapes, or a vocabulary, but no
	// weights. The vocabulary of WikiText-103, 267,735 words, has 9 MB.
	maxPickleBytes = 64 << 20
	// maxPickleMemory limits an upper estimate of the memory of one pickle's objects. The estimate
	// for the vocabulary of WikiText-103 is half of this limit.
	maxPickleMemory = 1 << 30
	// weightsMax limits a storage as a file of weights limits its data.
	weightsMax = weights.MaxDataBytes
	// maxLineBytes limits the name of a class, or of its module.
	maxLineBytes = 256
	// maxRecords limits the records of a zip archive: one for each storage, and a few more.
	maxRecords = weights.MaxTensors + 1<<10
	// maxDirectoryBytes limits the directory of a zip archive; maxRecords records need less.
	maxDirectoryBytes = 16 << 20
	// maxModuleDepth limits how deeply modules may be nested; the reference nests five deep.
	maxModuleDepth = 16
	// maxModuleEntries limits the parts of a pickled model: modules, parameters and buffers, each
	// counted in every place that uses it.
	maxModuleEntries = 1 << 17
	// maxNameBytes limits the name of a tensor.
	maxNameBytes = 256
	// maxReads limits the bytes that all tensors together may read, as a multiple of the storages'
	// size. Tied weights are read twice, plus one read for each of their names in a checkpoint.
	maxReads = 8
	// maxConfigBytes limits Hugging Face's config.json.
	maxConfigBytes = 1 << 20
)

// Faults of a checkpoint. Errors of the disk are returned unchanged, and wrap none of these.
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

// Error is a fault of a checkpoint: where it is, what was found there and what was expected. Offset
// counts the bytes of the pickle, or of the file outside pickles.
type Error = weights.Error

// inFile adds the file to an error of this package that names none yet.
func inFile(err error, name string) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		e.File = name
	}
	return err
}

// malformed returns an ErrFormat without an offset.
func malformed(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrFormat}
}

// unsupported returns the error for a model that is not supported.
func unsupported(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrUnsupported}
}

// tooLarge returns the error for an exceeded limit.
func tooLarge(where, found, want string) error {
	return &Error{Where: where, Offset: -1, Found: found, Want: want, Kind: ErrTooLarge}
}

// quotedMax is the most bytes of a file's text in an error.
const quotedMax = 80

// quote quotes text from a file and shortens it, because it may have megabytes.
func quote(s string) string {
	if len(s) > quotedMax {
		return strconv.Quote(s[:quotedMax]) + "..."
	}
	return strconv.Quote(s)
}

// shapeText formats a shape as "[2,3]".
func shapeText(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ",") }

package weights

import (
	"errors"
	"strconv"
	"strings"
)

// The Err variables are kinds of errors in a file's content. Errors of the disk or the network do
// not match any of them.
var (
	// ErrFormat means that the content violates the format, or that a File cannot be written in the
	// format.
	ErrFormat = errors.New("not a well-formed safetensors file")
	// ErrTruncated means that the file ends before the end that its header announces.
	ErrTruncated = errors.New("file is truncated")
	// ErrTooLarge means that the file exceeds a limit.
	ErrTooLarge = errors.New("over the limit")
	// ErrZstd means that the compressed data is damaged.
	ErrZstd = errors.New("not a well-formed zstd stream")
	// ErrDType means that the tensor is valid, but its elements cannot be converted to the
	// requested type.
	ErrDType = errors.New("wrong element type")
)

// Error describes an error in a file: where it is, what was found and what was expected. errors.Is
// matches an Error with the Err variable of its kind.
type Error struct {
	File   string // path, or "" for a stream
	Where  string // such as `tensor "r_w_bias", shape`
	Offset int64  // offset in the (decompressed) file, or -1
	Found  string
	Want   string
	Kind   error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("weights: ")
	if e.File != "" {
		b.WriteString(e.File + ": ")
	}
	b.WriteString(e.Where)
	if e.Offset >= 0 {
		b.WriteString(" at byte " + strconv.FormatInt(e.Offset, 10))
	}
	b.WriteString(": found " + e.Found + ", expected " + e.Want + ": " + e.Kind.Error())
	return b.String()
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

func inFile(err error, name string) error {
	var e *Error
	if errors.As(err, &e) {
		e.File = name
	}
	return err
}

func tensorField(tensor, field string) string {
	return "tensor " + quote(tensor) + ", " + field
}

// quote quotes text from a file. It shortens the text, because a name can have megabytes.
func quote(s string) string {
	const longest = 80
	if len(s) > longest {
		return strconv.Quote(s[:longest]) + "..."
	}
	return strconv.Quote(s)
}

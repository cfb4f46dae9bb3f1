package weights

import (
	"errors"
	"strconv"
	"strings"
)

// Kinds of faults in a file. Errors of the disk or the network have no Kind: they are returned
// unchanged.
var (
	// ErrFormat: the content violates the format, or a File cannot be written in it.
	ErrFormat = errors.New("not a well-formed safetensors file")
	// ErrTruncated: the file ends before the end that its header announces.
	ErrTruncated = errors.New("file is truncated")
	// ErrTooLarge: a limit is exceeded.
	ErrTooLarge = errors.New("over the limit")
	// ErrZstd: the compressed data is damaged.
	ErrZstd = errors.New("not a well-formed zstd stream")
	// ErrDType: the tensor is valid, but its elements cannot be converted to the type.
	ErrDType = errors.New("wrong element type")
)

// Error says where a file is wrong, what was found there and what was expected. errors.Is matches
// it against the Err variables of this package.
type Error struct {
	File   string // path, empty for a stream
	Where  string // such as `tensor "r_w_bias", shape`
	Offset int64  // byte in the (decompressed) file, or -1
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

// inFile adds the file's name to an error of this package.
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

// quote quotes text from a file and shortens it, since a name may have megabytes.
func quote(s string) string {
	const longest = 80
	if len(s) > longest {
		return strconv.Quote(s[:longest]) + "..."
	}
	return strconv.Quote(s)
}

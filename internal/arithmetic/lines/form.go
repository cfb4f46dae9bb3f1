package lines

import (
	"bytes"
	"regexp"
)

// form is the state that decides whether the next line continues the open record.
type form struct {
	Indent  int    `json:"indent"`
	Thrown  bool   `json:"thrown"` // the record's first line is an exception, not a log message
	Python  bool   `json:"python"`
	Chained bool   `json:"chained"` // the last line says that another traceback follows
	Go      bool   `json:"go"`
	Split   string `json:"split"` // stdout or stderr if the last line is incomplete, else empty
}

func (f *form) begin(line []byte) { f.Indent, f.Thrown = indentation(line), thrown.Match(line) }

// unwrap removes the prefix of a container runtime (CRI) from a line. split reports whether the
// line is the second or a later part of a line that the runtime has split.
func (f *form) unwrap(line []byte) (text []byte, split bool) {
	was := f.Split
	f.Split = ""
	_, rest, _ := bytes.Cut(line, space)
	stream, rest, _ := bytes.Cut(rest, space)
	tag, text, ok := bytes.Cut(rest, space)
	if !ok || string(stream) != "stdout" && string(stream) != "stderr" {
		return line, false
	}
	switch string(tag) {
	case "P":
		f.Split = string(stream)
	case "F":
	default:
		return line, false
	}
	return text, was == string(stream)
}

var space = []byte{' '}

// thrown matches a line that begins with the name of an exception, such as java.io.IOException.
var thrown = regexp.MustCompile(
	`^(?:[a-z_]\w*[.])+[A-Z][\w$.]*(?:Exception|Error|Throwable)(?:[: ]|$)`)

// furthers are beginnings of lines that continue a record.
var furthers = [][]byte{
	[]byte("Caused by: "), []byte("Suppressed: "), []byte("..."), // from stack traces of Java
	[]byte("stack backtrace:"), []byte("note: "), // from stack traces of Rust
	[]byte("Stack trace:"), []byte("[signal "), // from stack traces of PHP and Go
}

// chains are the beginnings of the lines that Python writes between two tracebacks.
var chains = [][]byte{
	[]byte("During handling of the above exception"),
	[]byte("The above exception was the direct cause"),
}

// continues reports whether a line continues the open record, which has the given number of lines.
// These lines do:
//
//   - blank lines, and lines with a deeper indentation than the record's first line;
//   - lines of a stack trace (Java, Python, Go and others);
//   - lines of closing brackets only, as at the end of indented JSON;
//   - lines that PostgreSQL adds to a message, such as DETAIL.
func (f *form) continues(line []byte, lines int64) bool {
	line = bytes.TrimRight(line, " \t\r")
	if len(line) == 0 || indentation(line) > f.Indent {
		return true
	}
	raised, going := f.Python, f.Go && isCall(line)
	follows := lines <= 1 && !f.Thrown || f.Chained
	f.Python, f.Go, f.Chained = false, going, hasPrefix(line, chains)
	switch {
	case bytes.HasPrefix(line, []byte("Traceback (most recent call last):")):
		f.Python = true
		return follows
	case bytes.HasPrefix(line, []byte("goroutine ")) && bytes.HasSuffix(line, []byte("]:")):
		f.Go = true
		return true
	case raised, going, f.Chained, hasPrefix(line, furthers):
		return true
	case bytes.HasPrefix(line, []byte("at ")) && line[len(line)-1] == ')':
		return true
	case len(bytes.Trim(line, "})],;")) == 0:
		return true
	case thrown.Match(line):
		return follows
	}
	return isDetail(line)
}

func hasPrefix(line []byte, any [][]byte) bool {
	for _, prefix := range any {
		if bytes.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// isCall reports whether a line names a function in the stack of a goroutine.
func isCall(line []byte) bool {
	if bytes.HasPrefix(line, []byte("created by ")) {
		return true
	}
	at := bytes.IndexAny(line, " (")
	return at > 0 && line[at] == '(' && line[len(line)-1] == ')'
}

// isDetail reports whether PostgreSQL added the line to a message, for example as DETAIL or HINT.
func isDetail(line []byte) bool {
	at := bytes.Index(line, []byte(":  "))
	if at < 0 {
		return false
	}
	switch word := line[bytes.LastIndexByte(line[:at], ' ')+1 : at]; string(word) {
	case "DETAIL", "HINT", "STATEMENT", "CONTEXT", "QUERY", "LOCATION":
		return true
	}
	return false
}

func indentation(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }

package lines

import (
	"bytes"
	"regexp"
)

// form describes the open record, as far as it decides which lines continue the record.
type form struct {
	Indent  int    `json:"indent"`  // spaces and tabs before the record's first line
	Thrown  bool   `json:"thrown"`  // the record's first line is an exception, not a log message
	Python  bool   `json:"python"`  // a Python traceback may have more lines
	Chained bool   `json:"chained"` // the last line says that another traceback follows
	Go      bool   `json:"go"`      // the stack of a goroutine may have more lines
	Split   string `json:"split"`   // stdout or stderr if the last line is incomplete, else empty
}

// begin sets the form for the first line of a record.
func (f *form) begin(line []byte) { f.Indent, f.Thrown = indentation(line), thrown.Match(line) }

// unwrap removes the prefix of a container runtime (CRI) from a line. split reports whether this
// line is a further part of a line that the runtime has split.
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

// chains are the lines that Python writes between two tracebacks.
var chains = [][]byte{
	[]byte("During handling of the above exception"),
	[]byte("The above exception was the direct cause"),
}

// continues reports whether a line continues a record that has the given number of lines. A line
// continues it in these cases:
//
//   - it is blank, or indented deeper than the record's first line;
//   - it is part of a stack trace (Java, Python, Go and others);
//   - it has only closing brackets, as at the end of indented JSON;
//   - it is a line that PostgreSQL adds to a message.
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

// isDetail reports whether a line is one that PostgreSQL adds to a message.
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

// indentation returns the number of spaces and tabs at the beginning of a line.
func indentation(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }

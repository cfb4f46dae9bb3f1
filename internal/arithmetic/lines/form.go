package lines

import (
	"bytes"
	"regexp"
)

// form is what is known of a record from the forms of its lines.
type form struct {
	Indent  int    `json:"indent"`  // of its first line
	Thrown  bool   `json:"thrown"`  // its first line is an exception, not the message of a log
	Python  bool   `json:"python"`  // the frames of a traceback are under way
	Chained bool   `json:"chained"` // the last line says that another traceback follows
	Go      bool   `json:"go"`      // the frames of a goroutine are under way
	Split   string `json:"split"`   // the stream whose line a container runtime has split here
}

// begin notes the first line of a record.
func (f *form) begin(line []byte) { f.Indent, f.Thrown = indentation(line), thrown.Match(line) }

// unwrap returns what of a line is the program's own: without what a container runtime (CRI) writes
// in front. It reports whether the runtime has split the line off from the one before.
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

// thrown is the line of an exception that a log's message may stand before.
var thrown = regexp.MustCompile(
	`^(?:[a-z_]\w*[.])+[A-Z][\w$.]*(?:Exception|Error|Throwable)(?:[: ]|$)`)

// furthers are the beginnings of lines that continue a record.
var furthers = [][]byte{
	[]byte("Caused by: "), []byte("Suppressed: "), []byte("..."), // Java
	[]byte("stack backtrace:"), []byte("note: "), // Rust
	[]byte("Stack trace:"), []byte("[signal "), // PHP, Go
}

// chains are the lines of Python between two tracebacks.
var chains = [][]byte{
	[]byte("During handling of the above exception"),
	[]byte("The above exception was the direct cause"),
}

// continues reports whether a line continues a record with so many lines: it is blank, or indented
// deeper than the first line; or it is a part of a stack trace (Java, Python, Go and others), has
// closing brackets alone, as pretty JSON ends, or is what PostgreSQL adds to a message.
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

// isDetail reports whether a line is what PostgreSQL adds to a message.
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

// indentation is the number of spaces and tabs in front of a line.
func indentation(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }

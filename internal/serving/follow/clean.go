package follow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// lineMax is the maximum number of bytes of a line that are returned. The rest of the line is
// skipped.
const lineMax = 16 << 10

// Notes reports each message once, and counts skipped bytes.
type Notes struct {
	Say func(text string) // if nil, messages are dropped

	told map[string]bool
	// atomic: the goroutine that reads the journal increments it while others read it
	skipped atomic.Int64
}

// Skipped returns the number of bytes that were read but not returned.
func (n *Notes) Skipped() int64 { return n.skipped.Load() }

func (n *Notes) once(text string) {
	if n.told[text] || n.Say == nil {
		return
	}
	if n.told == nil {
		n.told = map[string]bool{}
	}
	n.told[text] = true
	n.Say(text)
}

func (n *Notes) skip(bytes int, what string) {
	n.skipped.Add(int64(bytes))
	n.once(what)
}

// Cleaner makes lines of UTF-8 from the output of programs. It converts other encodings. It drops
// carriage returns before newlines, terminal control sequences, NULs, binary lines and the rest of
// long lines. It joins lines that a container runtime has split. The result depends only on the
// bytes of the line.
type Cleaner struct {
	Notes *Notes
	// If not nil, Field is the path of a value in a line of JSON, and only this value is returned.
	Field []string

	decoder *encoding.Decoder // nil if the text is not UTF-16
	line    int               // bytes of the current line so far
	within  bool              // the position is within a line of the file
	// If a container runtime has split the line here, split is the line's stream: stdout or stderr.
	// Else it is empty.
	split string
	text  []byte
}

// Clean cleans the next part of a text. The result is valid until the next call.
func (c *Cleaner) Clean(raw []byte) []byte {
	if c.decoder != nil {
		c.Notes.once("UTF-16 is converted to UTF-8")
		raw, _ = c.decoder.Bytes(raw) // invalid UTF-16 becomes U+FFFD
	}
	c.text = c.text[:0]
	for len(raw) > 0 {
		line, rest, ended := bytes.Cut(raw, []byte{'\n'})
		c.add(line, ended)
		raw = rest
	}
	return c.text
}

// add adds a line, or a part of one.
func (c *Cleaner) add(line []byte, ended bool) {
	whole := true
	if !c.within {
		line, whole = c.join(line, ended)
	}
	c.within = !ended
	begins := c.line == 0
	if hole := bytes.LastIndexByte(line, 0); hole >= 0 {
		whole := len(line)
		c.line = whole - hole - 1 // what follows NULs counts as the beginning of a line
		line = bytes.ReplaceAll(line, []byte{0}, nil)
		c.Notes.skip(whole-len(line), "NUL bytes are skipped")
	} else {
		room := max(0, lineMax-c.line)
		c.line += len(line)
		if len(line) > room {
			c.Notes.skip(len(line)-room, fmt.Sprintf(
				"lines of more than %d bytes are cut: the rest of each is skipped", lineMax))
			line = line[:room]
		}
	}
	if ended {
		line = bytes.TrimRight(line, "\r")
	}
	if ended = ended && c.split == ""; ended {
		c.line = 0
	}
	line, binary := c.tidy(line, begins, whole)
	c.text = append(c.text, line...)
	if ended && !(binary && begins) {
		c.text = append(c.text, '\n')
	}
}

// container matches the prefix that a container runtime (CRI) writes before each part of a line. F
// marks the last part, and P all other parts.
var container = regexp.MustCompile(`^\d{4}-\S{15,35} (stdout|stderr) ([PF]) `)

// join handles the beginning of a line of the file, and returns its text. If the line continues a
// line that a container runtime has split, the text lacks the runtime's prefix. Otherwise join ends
// the split line, if there is one. If the line is from Docker's json-file and Field is the path of
// its field log, the text is that field. The field may be only a part of a line, so whole is false.
func (c *Cleaner) join(line []byte, ended bool) (text []byte, whole bool) {
	was, stream := c.split, ""
	c.split = ""
	text, next, whole := line, line, true
	if m := container.FindSubmatch(line); m != nil {
		stream, next = string(m[1]), line[len(m[0]):]
		if m[2][0] == 'P' {
			c.split = stream
		}
	} else if log, ok := dockerLog(line); ok && ended && slices.Equal(c.Field, fieldLog) {
		stream, whole = log.Stream, false
		if len(*log.Log) >= dockerPart && !strings.HasSuffix(*log.Log, "\n") {
			c.split = stream
		}
		text = []byte(oneLine(*log.Log))
		next = text
	}
	switch was {
	case "":
	case stream:
		return next, whole
	default:
		c.text, c.line = append(c.text, '\n'), 0
	}
	return text, whole
}

var fieldLog = []string{"log"}

// dockerPart is the maximum number of bytes that Docker writes at once. Docker splits longer lines,
// and only the last part has a newline.
const dockerPart = 16 << 10

// dockerLine is a line of Docker's json-file.
type dockerLine struct {
	Log    *string
	Stream string
}

func dockerLog(line []byte) (l dockerLine, ok bool) {
	if !bytes.HasPrefix(line, []byte(`{"log":"`)) {
		return l, false
	}
	err := json.Unmarshal(line, &l)
	return l, err == nil && l.Log != nil && l.Stream != ""
}

// escapes matches terminal control sequences (ECMA-48): CSI, OSC, and the short ones.
var escapes = regexp.MustCompile(
	`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]+[0-~]|[0-Z\\^-~])`)

// tidy converts a part of a line to text. A binary part has no text.
func (c *Cleaner) tidy(line []byte, begins, whole bool) (text []byte, binary bool) {
	if begins {
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	if bytes.IndexByte(line, '\x1b') >= 0 {
		line = escapes.ReplaceAll(line, nil)
	}
	if valid := utf8.Valid(line); isBinary(line, valid) {
		c.Notes.skip(len(line), "binary lines are skipped")
		return nil, true
	} else if !valid && isLatin(line) {
		c.Notes.once("Latin-1 (Windows-1252) is converted to UTF-8")
		line, _ = charmap.Windows1252.NewDecoder().Bytes(line) // the decoder accepts every byte
	}
	if c.Field != nil && begins && whole {
		line = fieldOf(line, c.Field)
	}
	return line, false
}

// isBinary reports whether a line has more control characters than text can have. In valid UTF-8
// the limit is a third of the line: the text protocol FIX separates short fields by 0x01.
func isBinary(line []byte, valid bool) bool {
	controls := 0
	for _, b := range line {
		if b < ' ' && b != '\t' && b != '\r' || b == 0x7f {
			controls++
		}
	}
	// about one in nine random bytes is a control character; text in any encoding has almost none
	share := 64
	if valid {
		share = 3
	}
	return controls*share > len(line)
}

// isLatin reports whether a line that is not UTF-8 looks like Latin-1. Most of its bytes must be
// ASCII, and no other bytes may form a UTF-8 character. A UTF-8 line that was cut within a
// character has such characters.
func isLatin(line []byte) bool {
	high := 0
	for at := 0; at < len(line); at++ {
		if line[at] < utf8.RuneSelf {
			continue
		}
		if r, _ := utf8.DecodeRune(line[at:]); r != utf8.RuneError {
			return false
		}
		high++
	}
	return 2*high < len(line)
}

// fieldOf returns the value at a path of a line in JSON, or the line itself if it has no such
// value.
func fieldOf(line []byte, path []string) []byte {
	value := json.RawMessage(line)
	for _, key := range path {
		var object map[string]json.RawMessage
		var array []json.RawMessage
		at, err := strconv.Atoi(key)
		switch {
		case json.Unmarshal(value, &object) == nil && object[key] != nil:
			value = object[key]
		case err == nil && json.Unmarshal(value, &array) == nil && at >= 0 && at < len(array):
			value = array[at]
		default:
			return line
		}
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return value
	}
	return []byte(oneLine(text))
}

// oneLine escapes the line breaks of a text as JSON does.
func oneLine(text string) string {
	breaks := strings.NewReplacer("\r\n", `\n`, "\n", `\n`, "\r", `\r`)
	return breaks.Replace(strings.TrimRight(text, "\r\n"))
}

// ParseField returns the path for a JSON pointer (RFC 6901) or a name.
func ParseField(text string) []string {
	pointer, ok := strings.CutPrefix(text, "/")
	if !ok {
		return []string{text}
	}
	path := strings.Split(pointer, "/")
	for i := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i])
	}
	return path
}

// The newlines of UTF-8 and of UTF-16 in both byte orders.
var (
	newline8  = []byte("\n")
	newlineLE = []byte("\n\x00")
	newlineBE = []byte("\x00\n")
)

// newlineOf returns the newline of a text from its first bytes.
func newlineOf(head []byte) []byte {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return newlineLE
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return newlineBE
	}
	return newline8
}

// decoderOf returns the decoder of a text with these newlines. It returns nil for UTF-8, which
// needs no decoder.
func decoderOf(newline []byte) *encoding.Decoder {
	order := unicode.LittleEndian
	switch {
	case len(newline) == 1:
		return nil
	case newline[0] == 0:
		order = unicode.BigEndian
	}
	return unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder()
}

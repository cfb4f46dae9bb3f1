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

// lineMax is how many bytes of a line are given. The rest of the line is skipped.
const lineMax = 16 << 10

// Notes tells its listener each thing once, and counts what is skipped.
type Notes struct {
	Say func(text string) // nil: nobody listens

	told    map[string]bool
	skipped atomic.Int64 // what reads the journal counts while others ask
}

// Skipped is the number of bytes that were read and not given.
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

// Cleaner makes lines of UTF-8 from what programs write: other encodings are converted; carriage
// returns before newlines, sequences that control a terminal, NULs, binary lines and the rest of
// long lines are left out. What a container runtime has split is one line. Its result depends on
// the bytes of the line alone.
type Cleaner struct {
	Notes *Notes
	// of a line in JSON, the path of the value that alone is given; nil: the whole line
	Field []string

	decoder *encoding.Decoder // nil: the text is not UTF-16
	line    int               // bytes of the line under way, up to here
	within  bool              // a line of the file is under way
	split   string            // the stream whose line a container runtime has split here; "": none
	text    []byte
}

// Clean returns the next part of a text, clean. It is valid until the next call.
func (c *Cleaner) Clean(raw []byte) []byte {
	if c.decoder != nil {
		c.Notes.once("UTF-16 is converted to UTF-8")
		raw, _ = c.decoder.Bytes(raw) // what is no UTF-16 becomes U+FFFD
	}
	c.text = c.text[:0]
	for len(raw) > 0 {
		line, rest, ended := bytes.Cut(raw, []byte{'\n'})
		c.add(line, ended)
		raw = rest
	}
	return c.text
}

// add takes in a line, or a part of one.
func (c *Cleaner) add(line []byte, ended bool) {
	whole := true
	if !c.within {
		line, whole = c.join(line, ended)
	}
	c.within = !ended
	begins := c.line == 0
	if hole := bytes.LastIndexByte(line, 0); hole >= 0 {
		whole := len(line)
		c.line = whole - hole - 1 // a line begins behind a hole
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

// container is what a container runtime (CRI) writes in front of a line: F of the last part, else
// P.
var container = regexp.MustCompile(`^\d{4}-\S{15,35} (stdout|stderr) ([PF]) `)

// join takes a line that begins for what it is: the next part of one that a container runtime has
// split, or another, before which that one ends. Of a line of Docker's json-file, whose field log
// is read, it returns the field, which is not the whole line.
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

// dockerPart is how many bytes of a line Docker writes at once. Of a line that is longer, no part
// but the last has a newline.
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

// escapes are the sequences that control a terminal (ECMA-48): CSI, OSC, and the short ones.
var escapes = regexp.MustCompile(
	`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]+[0-~]|[0-Z\\^-~])`)

// tidy makes text of a part of a line. A binary part has none.
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
		line, _ = charmap.Windows1252.NewDecoder().Bytes(line) // it decodes every byte
	}
	if c.Field != nil && begins && whole {
		line = fieldOf(line, c.Field)
	}
	return line, false
}

// isBinary reports whether a line has more control characters than text has. Of valid UTF-8 that is
// a third: FIX, a protocol of text, separates fields of some bytes by 0x01.
func isBinary(line []byte, valid bool) bool {
	controls := 0
	for _, b := range line {
		if b < ' ' && b != '\t' && b != '\r' || b == 0x7f {
			controls++
		}
	}
	share := 64 // of random bytes one in nine is a control character, of text in any encoding none
	if valid {
		share = 3
	}
	return controls*share > len(line)
}

// isLatin reports whether a line that is no UTF-8 is Latin-1 by all that can be seen: most of it is
// ASCII, and none of the rest is UTF-8, as it is in a line that was cut within a character.
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

// fieldOf returns the value at a path of a line in JSON; the line itself if it has none.
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

// oneLine writes the line breaks of a text as JSON does.
func oneLine(text string) string {
	breaks := strings.NewReplacer("\r\n", `\n`, "\n", `\n`, "\r", `\r`)
	return breaks.Replace(strings.TrimRight(text, "\r\n"))
}

// ParseField returns the path of a field that a JSON pointer (RFC 6901) or a name says.
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

// The newline of a text, by the byte order mark with which the text begins.
var (
	newline8  = []byte("\n")
	newlineLE = []byte("\n\x00")
	newlineBE = []byte("\x00\n")
)

// newlineOf returns the newline of a text that begins so.
func newlineOf(head []byte) []byte {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return newlineLE
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return newlineBE
	}
	return newline8
}

// decoderOf returns the decoder of a text with such newlines; nil if it needs none.
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

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

// lineMax is the maximum length of a returned line, in bytes. The rest of a longer line is skipped.
const lineMax = 16 << 10

// Notes passes each message to Say once, and counts the skipped bytes of the input.
type Notes struct {
	Say func(text string) // if nil, messages are dropped

	told map[string]bool
	// atomic because one goroutine increments the counter while others call Skipped
	skipped atomic.Int64
}

// Skipped returns the number of input bytes that were dropped.
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

// Cleaner converts log text to clean lines of UTF-8, also from other encodings. Cleaner drops
// carriage returns before newlines, terminal control sequences, NULs, binary lines and the ends of
// long lines. It joins lines that a container runtime has split. The result for a line depends only
// on the bytes of the line.
type Cleaner struct {
	Notes *Notes
	// Field is the path of a value in a line of JSON: only this value is returned. If Field is nil
	// or the line has no such value, the whole line is returned.
	Field []string

	decoder *encoding.Decoder // nil if the text is not UTF-16
	line    int
	within  bool
	// split names the stream (stdout or stderr) of a line that a container runtime has split and
	// that is incomplete. Otherwise split is empty.
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

func (c *Cleaner) add(line []byte, ended bool) {
	whole := true
	if !c.within {
		line, whole = c.join(line, ended)
	}
	c.within = !ended
	begins := c.line == 0
	if hole := bytes.LastIndexByte(line, 0); hole >= 0 {
		whole := len(line)
		c.line = whole - hole - 1 // the line's length counts only the bytes after its last NUL
		line = bytes.ReplaceAll(line, []byte{0}, nil)
		c.Notes.skip(whole-len(line), "NUL bytes are skipped")
	} else {
		room := max(0, lineMax-c.line)
		c.line += len(line)
		if whole := len(line); whole > room {
			line = wholeChars(line[:room])
			c.Notes.skip(whole-len(line), fmt.Sprintf(
				"lines of more than %d bytes are cut: the rest of each is skipped", lineMax))
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

// wholeChars returns a text without an incomplete character at its end.
func wholeChars(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if !utf8.FullRune(end) {
				text = text[:len(text)-n]
			}
			break
		}
	}
	return text
}

// container matches the prefix that a container runtime (CRI) writes before each part of a line. F
// marks the last part, and P all other parts.
var container = regexp.MustCompile(`^\d{4}-\S{15,35} (stdout|stderr) ([PF]) `)

// join handles the beginning of a line of the file, and returns the line's text. A line that
// continues a split line is returned without the container runtime's prefix. Any other line first
// ends an unfinished split line. If the line is from Docker's json-file and Field selects the
// member log, join returns that member, and whole is false.
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
		text = []byte(OneLine(*log.Log))
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

// dockerPart is the size in bytes at which Docker splits a line. Only the last part of a split line
// ends with a newline.
const dockerPart = 16 << 10

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

// escapes matches terminal control sequences (ECMA-48): CSI, OSC and shorter sequences.
var escapes = regexp.MustCompile(
	`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]+[0-~]|[0-Z\\^-~])`)

// tidy converts a part of a line to clean UTF-8. For binary data, it returns no text.
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

// isBinary reports whether a line has too many control characters to be text. In valid UTF-8, up to
// a third is allowed, because the text protocol FIX separates short fields by 0x01.
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

// isLatin reports whether a line that is not valid UTF-8 looks like Latin-1. Most bytes must be
// ASCII. The other bytes must not form a UTF-8 character: if they do, the line is UTF-8 that was
// cut within a character.
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

// fieldOf returns the value at a path in a line of JSON, or the whole line if the value is missing.
func fieldOf(line []byte, path []string) []byte {
	value := LookUp(line, path)
	if value == nil {
		return line
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return value
	}
	return []byte(OneLine(text))
}

// LookUp returns the value at a path in a JSON value, or nil if there is none. A key of the path is
// the name of a member, or the index of an element.
func LookUp(value json.RawMessage, path []string) json.RawMessage {
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
			return nil
		}
	}
	return value
}

var breaks = strings.NewReplacer("\r\n", `\n`, "\n", `\n`, "\r", `\r`)

// OneLine escapes the line breaks within a text as JSON does, and drops those at the end.
func OneLine(text string) string { return breaks.Replace(strings.TrimRight(text, "\r\n")) }

// ParseField returns the path that a JSON pointer (RFC 6901) describes. A text without a leading
// slash is the name of a member.
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

var (
	newline8  = []byte("\n")
	newlineLE = []byte("\n\x00")
	newlineBE = []byte("\x00\n")
)

func newlineOf(head []byte) []byte {
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return newlineLE
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return newlineBE
	}
	return newline8
}

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

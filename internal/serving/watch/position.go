package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/serving/follow"
	"github.com/lmserve/lmserve/internal/strictjson"
)

const (
	positionVersion = 2
	// partsMax is the maximum number of parts of a position. If there are more, the oldest parts
	// are dropped.
	partsMax = 64
	// aheadBytes is the number of bytes that may be sent after a write of the position. Then the
	// position must be written again.
	aheadBytes = 64 << 10
)

// Position gives, for each part of a session's text, the file and the part of the file. It is
// written before the text is sent. If only a part of the text arrives, Position stays valid,
// because the session's offset is the number of bytes that arrived.
type Position struct {
	Version int    `json:"version"`
	Session string `json:"session"`
	Path    string `json:"path"`
	// Until is an upper bound of the session's offset after all text sent so far.
	Until int64 `json:"until"`
	// Reported is an offset in the session's text. All lines before this offset have been reported.
	Reported int64  `json:"reported"`
	Parts    []Part `json:"parts"` // sorted by From
}

// Part says which file a part of a session's text comes from. The part begins at the session's
// offset From, and ends where the next Part begins. In the file, it begins at the offset Start.
// follow.Cleaner removes bytes, so a byte of the text is found only by reading the file again from
// Start.
type Part struct {
	From   int64  `json:"from"`             // offset in the session
	Start  int64  `json:"start"`            // offset in the file
	Cursor string `json:"cursor,omitempty"` // position in the systemd journal, in place of Start
	// Ended reports whether the byte before From is a newline that was added, and is not in the
	// file.
	Ended bool        `json:"ended,omitempty"`
	Mark  follow.Mark `json:"mark"`
}

// at returns the part that contains an offset, or nil if no part does.
func (p *Position) at(offset int64) *Part {
	for i := range slices.Backward(p.Parts) {
		if p.Parts[i].From <= offset {
			return &p.Parts[i]
		}
	}
	return nil
}

// place returns the place in a file from which a session at the given offset continues. It returns
// an error if the position does not contain that offset.
func (p *Position) place(offset int64) (follow.Place, error) {
	if offset > p.Until {
		return follow.Place{}, fmt.Errorf("session %s is at offset %d, beyond the %d bytes sent "+
			"from %s: the session has other text; name another session",
			p.Session, offset, p.Until, p.Path)
	}
	part := p.at(offset)
	if part == nil {
		return follow.Place{},
			fmt.Errorf("session %s is at offset %d, but its saved positions in %s begin at %d: "+
				"the session was reset to an older state; name another session",
				p.Session, offset, p.Path, p.Parts[0].From)
	}
	return part.place(offset), nil
}

func (p *Part) place(offset int64) follow.Place {
	return follow.Place{
		Mark:   p.Mark,
		Offset: p.Start,
		Skip:   offset - p.From,
		Ended:  p.Ended && offset == p.From,
		Cursor: p.Cursor,
	}
}

// others returns the ends of all parts that end at or before the offset. Each end is a place in the
// part's file.
func (p *Position) others(offset int64) (places []follow.Place) {
	for i := range p.Parts {
		if i+1 == len(p.Parts) || p.Parts[i+1].From > offset {
			break
		}
		next := p.Parts[i+1]
		// The last byte of the part is a newline that is not in the file.
		if next.Ended && next.From > p.Parts[i].From {
			next.From--
		}
		place := p.Parts[i].place(next.From)
		place.Ended = next.Ended
		places = append(places, place)
	}
	return places
}

// upgrade converts a position of version 1, in which a session's text has all bytes of the file.
// After the given offset, bytes of the file may be left out. So the new position has one part,
// which begins at that offset.
func (p *Position) upgrade(offset int64) {
	part := p.at(offset)
	if p.Version == positionVersion || part == nil || offset > p.Until {
		return
	}
	p.Version, p.Reported = positionVersion, offset
	p.Parts = []Part{{
		From: offset, Start: part.Start + offset - part.From, Mark: part.Mark,
		Ended: part.Ended && offset == part.From,
	}}
}

type reader func(place follow.Place, bytes int64) ([]byte, error)

// text reads the session's text between two offsets again from the files that it came from.
func (p *Position) text(from, to int64, read reader) ([]byte, error) {
	var text []byte
	for from < to {
		part, end := p.at(from), to
		if part == nil {
			return nil, fmt.Errorf("the stored position for %s has no part with offset %d",
				p.Path, from)
		}
		var next Part
		if i := slices.IndexFunc(p.Parts, func(o Part) bool { return o.From > from }); i >= 0 {
			if next = p.Parts[i]; next.From <= to {
				end = next.From
			}
		}
		n := end - from
		closed := next.Ended && next.From == end
		if closed {
			n--
		}
		piece, err := read(part.place(from), n)
		if err != nil {
			return nil, err
		}
		if text = append(text, piece...); closed {
			text = append(text, '\n')
		}
		from = end
	}
	return text, nil
}

func (p *Position) check() error {
	wrong := func(what string, found, expected any) error {
		return fmt.Errorf("%s is %v, expected %v", what, found, expected)
	}
	switch {
	case p.Version != positionVersion && p.Version != 1:
		return wrong("version", p.Version, positionVersion)
	case p.Session == "" || p.Path == "":
		return errors.New("session or path is empty, expected an id and a path")
	case len(p.Parts) == 0 || len(p.Parts) > partsMax:
		return wrong("the number of parts", len(p.Parts), fmt.Sprintf("1 to %d", partsMax))
	case p.Until < p.Parts[len(p.Parts)-1].From:
		return wrong("until", p.Until, "the last part's from or more")
	case p.Reported < 0 || p.Reported > p.Until:
		return wrong("reported", p.Reported, fmt.Sprintf("0 to %d", p.Until))
	}
	last := int64(-1)
	for i, part := range p.Parts {
		where := fmt.Sprintf("parts[%d]", i)
		switch {
		case part.From <= last:
			return wrong(where+".from", part.From, fmt.Sprintf("over %d", last))
		case part.Start < 0 || part.Start > p.Until+1<<60:
			return wrong(where+".start", part.Start, "an offset")
		case !part.Mark.Head.Valid() || !part.Mark.Tail.Valid():
			return wrong(where+".mark", "not samples of a file", "samples of a file")
		}
		last = part.From
	}
	return nil
}

func parsePosition(text []byte) (*Position, error) {
	p := &Position{}
	if err := strictjson.Unmarshal(text, p); err != nil {
		return nil, err
	}
	return p, p.check()
}

// readPosition reads a position from a file. It returns nil if the file does not exist.
func readPosition(file string) (*Position, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var p *Position
	if err == nil {
		p, err = parsePosition(text)
	}
	if err != nil {
		return nil, fmt.Errorf("watch: reading the position %s: %w", file, err)
	}
	return p, nil
}

func (p *Position) write(file string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(file, atomicfile.Options{Perm: 0o600}, func(w io.Writer) error {
			_, err := w.Write(append(text, '\n'))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("watch: writing the position: %w", err)
	}
	return nil
}

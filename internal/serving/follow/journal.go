package follow

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// Journal reads the journal of systemd by running journalctl. Each entry becomes a line with the
// entry's unit, identifier and message.
type Journal struct {
	Args []string // additional arguments for journalctl, to select entries
	All  bool     // begin with the first entry, instead of the last journalLast entries
	Note func(text string)

	place   Place
	pieces  chan Piece
	waiting atomic.Int64
	err     error
	notes   Notes
}

const (
	// journalLast is the number of past entries that are read first. For files, the command watch
	// reads a similar amount of text.
	journalLast = 300
	// journalAhead is the maximum number of entries that are read ahead.
	journalAhead = 256
	// journalAgain is the pause before journalctl is run again.
	journalAgain = time.Second
)

// Start reads the entries after the place, until ctx is done. If the place has no cursor, reading
// begins with past entries: with the first entry if All is true, else with the last journalLast
// entries.
func (j *Journal) Start(ctx context.Context, place Place) {
	j.place, j.pieces, j.notes = place, make(chan Piece, journalAhead), Notes{Say: j.Note}
	go func() {
		defer close(j.pieces)
		j.err = j.run(ctx)
	}()
}

// Next returns the next entries, and waits for them until ctx is done. It returns io.EOF when
// journalctl has ended without an error.
func (j *Journal) Next(ctx context.Context) (Piece, error) {
	var p Piece
	for len(p.Text) == 0 {
		var ok bool
		select {
		case p, ok = <-j.pieces:
		case <-ctx.Done():
			return Piece{}, ctx.Err()
		}
		if !ok {
			return Piece{}, j.err
		}
	}
	for len(p.Text) < pieceBytes {
		select {
		case more := <-j.pieces: // a zero Piece if the channel is closed
			if len(more.Text) > 0 {
				p.Text = append(p.Text, more.Text...)
				continue
			}
		default:
		}
		break
	}
	j.waiting.Add(-int64(len(p.Text)))
	return p, nil
}

// Unread returns the number of bytes that were read but not returned yet.
func (j *Journal) Unread() int64 { return j.waiting.Load() }

// Skipped returns the number of bytes that were read but dropped.
func (j *Journal) Skipped() int64 { return j.notes.Skipped() }

// Close does nothing: the reading ends with the context of Start.
func (j *Journal) Close() {}

// run runs journalctl until it ends without an error. If journalctl fails after it has returned an
// entry, run starts it again.
func (j *Journal) run(ctx context.Context) error {
	for {
		began := j.place.Cursor
		err := j.follow(ctx)
		if err == nil {
			return io.EOF
		}
		select { // Ctrl-C may end journalctl shortly before ctx is canceled
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(journalAgain):
		}
		if j.place.Cursor == "" || j.place.Cursor == began && errors.Is(err, exec.ErrNotFound) {
			return err
		}
		j.notes.once(fmt.Sprintf("%v; restarting journalctl", err))
	}
}

func (j *Journal) follow(ctx context.Context) error {
	args := []string{"--follow"}
	switch {
	case j.place.Cursor != "":
		args = append(args, "--no-tail", "--cursor="+j.place.Cursor)
	case j.All:
		args = append(args, "--no-tail")
	default:
		args = append(args, fmt.Sprintf("--lines=%d", journalLast))
	}
	return j.journalctl(ctx, args, func(p Piece) error {
		j.waiting.Add(int64(len(p.Text)))
		select {
		case j.pieces <- p:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// Read returns the given number of bytes from a place of the journal.
func (j *Journal) Read(place Place, bytes int64) (text []byte, err error) {
	if j.place = place; place.Cursor == "" {
		return nil, errors.New("follow: the position has no journal cursor, because no entry " +
			"was read before it was stored")
	}
	err = j.journalctl(context.Background(), []string{"--cursor=" + place.Cursor},
		func(p Piece) error {
			if text = append(text, p.Text...); int64(len(text)) >= bytes {
				return io.EOF
			}
			return nil
		})
	if int64(len(text)) < bytes {
		return nil, errors.Join(errors.New("follow: the journal no longer contains the entries "+
			"that were read before"), err)
	}
	return text[:bytes], nil
}

// journalctl runs the program, and calls the function `give` with each entry until give returns an
// error.
func (j *Journal) journalctl(ctx context.Context, args []string, give func(Piece) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args = append([]string{"--output=json", "--all", "--no-pager", "--quiet"}, args...)
	cmd := exec.CommandContext(ctx, "journalctl", append(args, j.Args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("the journal cannot be read: %w", err)
	}
	err = j.entries(out, give)
	if err != nil {
		cancel()
	}
	ended := cmd.Wait()
	if err == nil && ended != nil {
		what := strings.TrimSpace(said.String())
		err = fmt.Errorf("journalctl ended (%w) %s", ended, OneLine(what))
	}
	return err
}

// entries parses the output of journalctl, calls the function `give` with each entry, and advances
// the place.
func (j *Journal) entries(out io.Reader, give func(Piece) error) error {
	in := bufio.NewReaderSize(out, 1<<16)
	c := Cleaner{Notes: &j.notes}
	left := j.place.Skip
	for first := true; ; first = false {
		raw, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the next run of journalctl repeats an incomplete entry
		}
		if err != nil {
			return err
		}
		cursor, line := entryOf(raw)
		if first && left > 0 && j.place.Cursor != cursor {
			j.notes.once("the journal no longer has the entry that was read last; entries " +
				"between that entry and the next are missing")
			left = 0
		}
		text := c.Clean([]byte(line))
		skip := min(left, int64(len(text)))
		if err := give(Piece{
			Text: bytes.Clone(text[skip:]), Skip: skip, File: 1, To: 1, Cursor: cursor,
		}); err != nil {
			return err
		}
		if left -= skip; left == 0 {
			j.place = Place{Cursor: cursor, Skip: int64(len(text))}
		}
	}
}

// entryOf parses an entry of journalctl's JSON output, and returns the entry's cursor and line.
func entryOf(raw []byte) (cursor, line string) {
	var e map[string]json.RawMessage
	if json.Unmarshal(raw, &e) != nil {
		return "", ""
	}
	line = OneLine(fieldText(e["MESSAGE"])) + "\n"
	name := fieldText(e["SYSLOG_IDENTIFIER"])
	if name == "" {
		name = fieldText(e["_COMM"])
	}
	if name != "" {
		line = name + ": " + line
	}
	if unit := fieldText(e["_SYSTEMD_UNIT"]); unit != "" {
		line = unit + " " + line
	}
	return fieldText(e["__CURSOR"]), line
}

// fieldText returns the text of a journal field. In journalctl's JSON, a field is a string, or an
// array of byte values if the text is not printable UTF-8. If a field has several values, fieldText
// returns the first value.
func fieldText(raw json.RawMessage) string {
	var text string
	var numbers []byte
	var several []json.RawMessage
	switch {
	case raw == nil || json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &several) != nil || len(several) == 0:
		return ""
	case several[0][0] == '"' || several[0][0] == '[':
		return fieldText(several[0])
	}
	for _, n := range several {
		var b byte
		if json.Unmarshal(n, &b) != nil {
			return ""
		}
		numbers = append(numbers, b)
	}
	return string(numbers)
}

// Package watch feeds streams to sessions line by line, continues after a restart, and shows the
// strangest lines. A stream is a log that package follow reads, the systemd journal, or a pipe. The
// sessions are on a server, which is called by package api/client.
//
// A position is a small file that says which file a session's text comes from. The session's offset
// says how much of this text the session has received. So a restart feeds no line twice and leaves
// none out.
//
// The position also says which lines of the session were reported to the user. After a restart, a
// fork of the session scores the later lines again, so that they can be reported.
package watch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/follow"
)

// Watcher feeds streams to sessions. If several streams are watched, several goroutines may call
// the Watcher's callbacks at once.
type Watcher struct {
	Client *client.Client
	Score  client.ScoreOptions // options for scoring lines; Offset must be nil
	// Line receives each scored line, in order, and reports whether it showed the line to the user.
	// After a line was shown, the position is written at once, so that no restart shows the line
	// again.
	Line func(Found) (shown bool, err error)
	// Before is called before the first call of Line. It receives the incidents that the session
	// had when its last line was reported. It is not called if the session does not learn
	// (LearnFalse), or if no line was reported yet. It may be nil.
	Before func(source string, list client.IncidentList)
	// Behind is called several times a second while a stream is fed. Its argument says how far
	// scoring is behind.
	Behind func(Behind)
	// Waiting is called again and again while a source has text that the server does not take. It
	// may be nil.
	Waiting func(source string)
	// Note gets messages for the user.
	Note func(text string)
	// Field is a path in lines of JSON: only the value at that path is fed. If Field is nil, whole
	// lines are fed.
	Field []string
}

// Stream is what is watched: a log, or the journal of systemd.
type Stream struct {
	Name    string
	Session client.Session
	// path of the file with the position; "" for no position, as with LearnFalse
	Position string

	Log     follow.Log
	Last    int64           // bytes to read from the log's end; see follow.Options
	Ends    bool            // whether reading stops when the log's file is gone; see follow.Options
	Journal *follow.Journal // nil for a log
}

func (in *Stream) path() string {
	if in.Journal != nil {
		return "journalctl"
	}
	return in.Log.Path
}

type source interface {
	Next(context.Context) (follow.Piece, error)
	Unread() int64
	Skipped() int64
	Close()
}

func (in *Stream) options(field []string, note func(string)) follow.Options {
	return follow.Options{Log: in.Log, Last: in.Last, Ends: in.Ends, Field: field, Note: note}
}

type feeding struct {
	*Watcher
	name    string
	session client.Session
	feeder  *client.Feeder
	keeper  *keeper // nil if the stream has no position
	unread  func() int64

	lag    lag
	sent   int64
	done   int64 // sent bytes that are in scored lines
	waited time.Time

	unwritten bool // the last write of the position failed, and the user was informed

	told   int64 // all lines before this offset of the session have been reported
	untold bool  // the current record of lines has not been reported
}

// begin makes a feeder for a session. It first asks the server whether the session's text ends
// within a line. This request also makes the server load the session's state.
func (w *Watcher) begin(
	ctx context.Context, name string, s client.Session,
) (f *feeding, within bool, err error) {
	f = &feeding{Watcher: w, name: name, session: s, unread: func() int64 { return 0 }}
	ask := client.ScoreOptions{Lines: true, Learn: client.LearnFalse, NoText: true}
	summary, err := w.Client.ScoreText(ctx, s.ID, []byte{'\n'}, ask)
	if err != nil {
		return nil, false, err
	}
	within = len(summary.Lines) > 0 && summary.Lines[0].Bytes > 1
	if w.Score.Learn != client.LearnFalse {
		f.feeder = w.Client.NewFeeder(s.ID, f.options())
	}
	return f, within && f.feeder != nil, nil
}

func (f *feeding) options() client.FeedOptions {
	o := client.FeedOptions{
		BatchBytes: pieceBytes, Score: f.Score, Event: f.event, Waiting: f.waiting,
		Lost:     func(e *client.LostError) error { f.note("%v", e); return nil },
		Diverged: func(n int64) { f.note("%s", DivergedNote(n)) },
	}
	o.Score.Offset = &f.session.Offset
	return o
}

// DivergedNote returns a message for a user whose session's fast weights diverged the given number
// of times.
func DivergedNote(times int64) string {
	return fmt.Sprintf("the fast weights diverged %s and were reset to zero; try a lower learning "+
		"rate or another method", english.Plural(int(times), "time", ""))
}

func (f *feeding) note(format string, args ...any) {
	f.Note(f.name + ": " + fmt.Sprintf(format, args...))
}

// noteEvery is the minimum time between two messages to the user about waiting for the server.
const noteEvery = 10 * time.Second

func (f *feeding) waiting(cause error, pause time.Duration) {
	if f.Waiting != nil {
		f.Waiting(f.name)
	}
	if time.Since(f.waited) > noteEvery {
		f.waited = time.Now()
		f.note("waiting for the server: %v", cause)
	}
}

// event passes a scored line to the function Line, and records that the line was reported.
func (f *feeding) event(e client.Event) error {
	if e.Line == nil {
		return nil
	}
	end, record := e.Line.Offset+e.Line.Bytes, f.records()
	// The line was already reported, by the method end or before a restart.
	if record && end <= f.told {
		return nil
	}
	shown, err := f.Line(Found{f.name, *e.Line})
	if err != nil {
		return err
	}
	f.told = end
	// With LearnFalse the session's offset does not change, so the variable end says nothing about
	// the number of scored bytes.
	if f.Score.Learn != client.LearnFalse {
		f.done = max(f.done, end-f.session.Offset)
	}
	f.look(false)
	if f.keeper != nil && (e.Line.Ended || record) {
		f.tryLater(f.keeper.reported(end, shown))
	}
	return nil
}

func (f *feeding) records() bool {
	return f.Score.Records && f.Score.Learn != client.LearnFalse
}

// look tells the function Behind how far scoring is behind the arriving text. It does so if the
// parameter `must` is true, or if the time lookEvery has passed since the last call.
func (f *feeding) look(must bool) {
	if now := time.Now(); must || f.lag.due(now) {
		b := f.lag.look(now, f.sent+f.unread(), f.done)
		b.Source = f.name
		f.Behind(b)
	}
}

func (f *feeding) feed(ctx context.Context, text []byte) error {
	// This text is counted first, because f.unread no longer counts it.
	f.sent += int64(len(text))
	f.look(false)
	feed := f.feeder.Feed
	if f.Score.Learn == client.LearnFalse {
		feed = f.read
	}
	if err := feed(ctx, text); err != nil {
		return err
	}
	f.done, f.untold = f.sent, f.records()
	f.look(f.unread() == 0)
	return nil
}

// read scores a text without adding it to the session.
func (f *feeding) read(ctx context.Context, text []byte) error {
	for e, err := range f.Client.Score(ctx, f.session.ID, bytes.NewReader(text), f.Score) {
		if err == nil {
			err = f.event(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Stream feeds a log or the journal to its session. It returns when ctx ends, or at the end of the
// source.
func (w *Watcher) Stream(ctx context.Context, in Stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, within, err := w.begin(ctx, in.Name, in.Session)
	if err != nil {
		return err
	}
	from, resumed, err := f.open(ctx, in)
	if err != nil {
		return err
	}
	defer from.Close()
	f.unread = from.Unread
	if within && !resumed { // the rest of the session's last line will not arrive
		if err := f.endLine(ctx); err != nil {
			return err
		}
	}
	for {
		p, err := await(ctx, f, from.Next)
		if err == nil {
			err = f.piece(ctx, p)
		}
		if err == nil {
			continue
		}
		if err == io.EOF || f.untold {
			err = f.ended(err)
		}
		if f.keeper != nil && f.done == f.sent { // all text has arrived at the session
			err = errors.Join(err, f.keeper.end(f.feeder.Offset()))
		}
		f.skipped(from.Skipped())
		return err
	}
}

func (f *feeding) skipped(bytes int64) {
	if bytes > 0 {
		f.note("%s skipped", humanize.IBytes(uint64(bytes)))
	}
}

// endLine ends the session's unfinished line with a newline. If the position has parts, it records
// that the newline is not in the file.
func (f *feeding) endLine(ctx context.Context) error {
	if f.keeper != nil && len(f.keeper.position.Parts) > 0 {
		return f.piece(ctx, follow.Piece{Text: []byte{'\n'}})
	}
	if f.keeper != nil {
		f.keeper.next++
	}
	return f.feed(ctx, []byte{'\n'})
}

// ended reports the last line or record of a stream that ended with the error err. It returns an
// error of that report, or else err. Instead of io.EOF it returns nil.
func (f *feeding) ended(err error) error {
	if err == io.EOF {
		return f.end()
	}
	return cmp.Or(f.end(), err)
}

// end makes the server score and report a last line without a newline, or the current record.
func (f *feeding) end() error {
	f.untold = false
	if f.Score.Learn == client.LearnFalse {
		return nil
	}
	return f.feeder.End()
}

// await returns the next piece. If none arrives within reportEvery, await first reports the current
// record, and writes the position if that is out of date.
func await[T any](
	ctx context.Context, f *feeding, next func(context.Context) (T, error),
) (T, error) {
	defer func(began time.Time) {
		if time.Since(began) > lookEvery { // only the beginning of a line can have waited so long
			f.lag = lag{}
		}
	}(time.Now())
	if f.untold || f.keeper != nil && f.keeper.stale {
		soon, cancel := context.WithTimeout(ctx, reportEvery)
		p, err := next(soon)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return p, err
		}
		if f.untold {
			if err := f.end(); err != nil {
				return p, err
			}
		}
		if f.keeper != nil {
			f.tryLater(f.keeper.idle())
		}
	}
	return next(ctx)
}

// tryLater handles the result of writing the position. Of several errors in a row, it shows the
// user only the first. The position is written again with the next text.
func (f *feeding) tryLater(err error) {
	if err != nil && !f.unwritten {
		f.note("%v; trying again", err)
	}
	f.unwritten = err != nil
}

// piece feeds a piece of text. It first writes a position that covers the piece, and repeats a
// failed write until ctx ends.
func (f *feeding) piece(ctx context.Context, p follow.Piece) error {
	if f.keeper != nil {
		err := f.keeper.announce(p)
		for f.tryLater(err); err != nil; f.tryLater(err) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(reportEvery):
				err = f.keeper.write(f.keeper.position.Until)
			}
		}
	}
	return f.feed(ctx, p.Text)
}

// open opens a stream at the place where the session's text ends. Without a saved position, the
// stream's options determine the place.
func (f *feeding) open(ctx context.Context, in Stream) (from source, resumed bool, err error) {
	note := func(text string) { f.note("%s", text) }
	options := in.options(f.Field, note)
	var had *Position
	if in.Position != "" {
		f.keeper = &keeper{file: in.Position, next: in.Session.Offset, position: Position{
			Version: positionVersion, Session: in.Session.ID, Path: in.path(),
			Reported: in.Session.Offset,
		}}
		if had, err = readPosition(in.Position); err != nil {
			return nil, false, err
		}
	}
	var place follow.Place
	if had != nil {
		had.upgrade(in.Session.Offset)
		if place, err = had.place(in.Session.Offset); err != nil {
			return nil, false, fmt.Errorf("%w, or delete %s", err, in.Position)
		}
		f.keeper.position = *had
		f.keeper.position.Path = in.path()
		if err := f.before(ctx, had.Reported); err != nil {
			f.note("open incidents may be printed again: %v", err)
		}
		read := options.Read
		if in.Journal != nil {
			again := follow.Journal{Args: in.Journal.Args}
			read = again.Read
		}
		if err := f.again(ctx, had, read); err != nil {
			return nil, false, err
		}
	}
	if in.Journal != nil {
		in.Journal.Note = note
		in.Journal.Start(ctx, place)
		return in.Journal, place.Cursor != "", nil
	}
	if had == nil {
		return follow.Open(options), false, nil
	}
	w, resumed := follow.Resume(options, place, had.others(in.Session.Offset)...)
	if !resumed {
		f.note("the file that was read last is gone: it was deleted or truncated. Its text after "+
			"byte %d is missing", place.Offset)
	}
	return w, resumed, nil
}

// before calls the function Before with the incidents that the session had at an offset. Lines
// before that offset were already reported.
func (f *feeding) before(ctx context.Context, at int64) error {
	if f.Before == nil || at == 0 || f.Score.Learn == client.LearnFalse {
		return nil
	}
	id := f.session.ID
	if at < f.session.Offset {
		fork, err := f.Client.ForkSession(ctx, id, client.ForkRequest{
			AtOffset: &at, History: new(client.HistoryTail), TTLSeconds: new(int64(forkTTLSeconds)),
		})
		if err != nil {
			return err
		}
		id = fork.ID
		defer func() { _ = f.Client.DeleteSession(context.WithoutCancel(ctx), id) }()
	}
	list, err := f.Client.ListIncidents(ctx, id)
	if err == nil {
		f.Before(f.name, list)
	}
	return err
}

// forkTTLSeconds is the lifetime of the fork that the method before creates. If that method fails
// to delete the fork, the server deletes the fork after this time.
const forkTTLSeconds = 3600

// again reports the session's lines that were scored but not reported, for instance because of a
// crash.
func (f *feeding) again(ctx context.Context, p *Position, read reader) error {
	from, to := p.Reported, f.session.Offset
	f.told = from
	if from >= to {
		return nil
	}
	text, err := p.text(from, to, read)
	if err != nil {
		f.note("%d bytes were scored, but their lines were not reported: %v", to-from, err)
		return nil
	}
	o := f.options()
	o.Score.Offset = nil
	o.Event = func(e client.Event) error {
		if e.Line == nil || !e.Line.Ended && !f.records() {
			return nil
		}
		if end := e.Line.Offset + e.Line.Bytes; end > f.told {
			_, err = f.Line(Found{f.name, *e.Line})
			from, f.told = end, end
		}
		return err
	}
	err = f.Client.Replay(ctx, f.session.ID, from, text, o)
	f.tryLater(f.keeper.reported(from, true))
	return err
}

// Pipe feeds a stream that can be read only once. It returns when the stream or ctx ends.
func (w *Watcher) Pipe(ctx context.Context, name string, s client.Session, r io.Reader) error {
	f, within, err := w.begin(ctx, name, s)
	if err != nil {
		return err
	}
	if err := f.before(ctx, s.Offset); err != nil {
		f.note("open incidents may be printed again: %v", err)
	}
	if within { // the rest of the last line of an earlier stream will not arrive
		if err := f.feed(ctx, []byte{'\n'}); err != nil {
			return err
		}
	}
	p := newPipe(r)
	f.unread = p.waiting
	notes := follow.Notes{Say: func(text string) { f.note("%s", text) }}
	clean := follow.Cleaner{Notes: &notes, Field: w.Field}
	defer func() { f.skipped(notes.Skipped()) }()
	for {
		text, err := await(ctx, f, p.next)
		if err == io.EOF {
			return f.end()
		}
		if err == nil {
			err = f.feed(ctx, clean.Clean(text))
		}
		if err != nil {
			if f.untold {
				err = f.ended(err)
			}
			return err
		}
	}
}

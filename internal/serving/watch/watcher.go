// Package watch feeds streams to sessions line by line, continues after a restart, and shows the
// strangest lines. A stream is a followed log (follow), the journal of systemd, or a pipe; the
// sessions are on a server (api/client).
//
// A position, a small file, says which file the text of the session comes from. The session's
// offset says how much of the file was fed. So each line is in the session once, whenever the watch
// ends. The position also says which lines were reported. The next start reports the other lines of
// the session, with a fork of the session at the earlier offset.
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

// Watcher feeds streams to sessions. If it watches several streams, its functions may be called
// from several goroutines at once.
type Watcher struct {
	Client *client.Client
	Score  client.ScoreOptions // options for scoring lines; without an Offset
	// Line gets each line, in order, and returns whether it was shown: then the position is written
	// at once, so that the line is not shown twice.
	Line func(Found) (shown bool, err error)
	// Before gets the incidents that a source's session had when its last line was reported, before
	// any other line is. It is not called with LearnFalse, or if no line was reported yet. It may
	// be nil.
	Before func(source string, list client.IncidentList)
	// Behind is called several times a second while a stream is fed.
	Behind func(Behind)
	// Note gets messages for the user.
	Note func(text string)
	// Field is the path of the only value to read of lines in JSON; nil: whole lines.
	Field []string
}

// Stream is a log, or the journal of systemd, to be watched.
type Stream struct {
	Name     string // to show
	Session  client.Session
	Position string // the file of the position; "", as with LearnFalse: none

	Log     follow.Log
	Last    int64           // see follow.Options
	Ends    bool            // see follow.Options
	Journal *follow.Journal // nil: it is a log
}

// path identifies the stream in its position.
func (in *Stream) path() string {
	if in.Journal != nil {
		return "journalctl"
	}
	return in.Log.Path
}

// source is what a stream is read from.
type source interface {
	Next(context.Context) (follow.Piece, error)
	Unread() int64
	Skipped() int64
	Close()
}

// options returns the options to follow the stream's log.
func (in *Stream) options(field []string, note func(string)) follow.Options {
	return follow.Options{Log: in.Log, Last: in.Last, Ends: in.Ends, Field: field, Note: note}
}

// feeding is a stream that is fed to its session.
type feeding struct {
	*Watcher
	name    string
	session client.Session
	feeder  *client.Feeder
	keeper  *keeper // nil: there is no position
	unread  func() int64

	lag    lag
	sent   int64 // bytes that were sent to the feeder
	done   int64 // bytes of sent in lines that were scored
	waited time.Time

	unwritten bool // the position could not be written, and that was reported

	told   int64 // records up to this offset of the session have been reported
	untold bool  // the current record has not been reported
}

// begin makes a feeder of a session. It first asks the session whether it is within a line, which
// also loads its state.
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

// DivergedNote says how often fast weights diverged, what happened to them, and what helps.
func DivergedNote(times int64) string {
	return fmt.Sprintf("the fast weights diverged %s and were reset to zero; try a lower learning "+
		"rate or another method", english.Plural(int(times), "time", ""))
}

func (f *feeding) note(format string, args ...any) {
	f.Note(f.name + ": " + fmt.Sprintf(format, args...))
}

// noteEvery is how often a wait for the server is reported.
const noteEvery = 10 * time.Second

func (f *feeding) waiting(cause error, pause time.Duration) {
	if time.Since(f.waited) > noteEvery {
		f.waited = time.Now()
		f.note("waiting for the server: %v", cause)
	}
}

// event handles the session's report of a line.
func (f *feeding) event(e client.Event) error {
	if e.Line == nil {
		return nil
	}
	end, record := e.Line.Offset+e.Line.Bytes, f.records()
	if record && end <= f.told { // reported when nothing followed it, or before a restart
		return nil
	}
	shown, err := f.Line(Found{f.name, *e.Line})
	if err != nil {
		return err
	}
	f.told = end
	// with LearnFalse the next piece has the same offset again
	if f.Score.Learn != client.LearnFalse {
		f.done = max(f.done, end-f.session.Offset)
	}
	f.look(false)
	if f.keeper != nil && (e.Line.Ended || record) {
		f.tryLater(f.keeper.reported(end, shown))
	}
	return nil
}

// records reports whether the session is asked for records of its text.
func (f *feeding) records() bool {
	return f.Score.Records && f.Score.Learn != client.LearnFalse
}

// look reports how far behind the stream is, if it is time or must is set.
func (f *feeding) look(must bool) {
	if now := time.Now(); must || f.lag.due(now) {
		b := f.lag.look(now, f.sent+f.unread(), f.done)
		b.Source = f.name
		f.Behind(b)
	}
}

func (f *feeding) feed(ctx context.Context, text []byte) error {
	f.sent += int64(len(text)) // before look: the piece is no longer unread
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

// read scores a piece without feeding it to the session.
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

// Stream feeds a log or the journal. It ends with ctx, or with io.EOF of its source.
func (w *Watcher) Stream(ctx context.Context, in Stream) error {
	ctx, cancel := context.WithCancel(ctx) // ends the reading of the journal
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
	if within && !resumed { // nothing else ends the line
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
		if f.keeper != nil && f.done == f.sent { // otherwise the session's offset decides
			err = errors.Join(err, f.keeper.end(f.feeder.Offset()))
		}
		f.skipped(from.Skipped())
		return err
	}
}

// skipped reports how much was not read.
func (f *feeding) skipped(bytes int64) {
	if bytes > 0 {
		f.note("%s skipped", humanize.IBytes(uint64(bytes)))
	}
}

// endLine ends the session's unfinished line. The next text is the beginning of another file, if a
// file was read before.
func (f *feeding) endLine(ctx context.Context) error {
	if f.keeper != nil && len(f.keeper.position.Parts) > 0 {
		return f.piece(ctx, follow.Piece{Text: []byte{'\n'}})
	}
	if f.keeper != nil {
		f.keeper.next++
	}
	return f.feed(ctx, []byte{'\n'})
}

// ended reports the current record when the stream has ended with an error, and returns the error.
func (f *feeding) ended(err error) error {
	if err == io.EOF {
		return f.end()
	}
	return cmp.Or(f.end(), err)
}

// end reports a last line without a newline, or the current record.
func (f *feeding) end() error {
	f.untold = false
	if f.Score.Learn == client.LearnFalse {
		return nil // the line was reported
	}
	return f.feeder.End()
}

// await returns the next piece. When nothing has arrived for some time, it reports the current
// record, and the position records what was reported.
func await[T any](
	ctx context.Context, f *feeding, next func(context.Context) (T, error),
) (T, error) {
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

// tryLater reports once that a position could not be written. It is written again with the next
// text.
func (f *feeding) tryLater(err error) {
	if err != nil && !f.unwritten {
		f.note("%v; trying again", err)
	}
	f.unwritten = err != nil
}

// piece feeds a piece after the position announces it.
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

// open opens a stream at the session's place in it, or where it is to begin.
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

// before reports the incidents of the session at an offset up to which lines were reported.
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

// forkTTLSeconds is how long a fork stays that could not be deleted.
const forkTTLSeconds = 3600

// again reports the lines of the session that were not reported.
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

// Pipe feeds a stream that can be read only once. It ends with the stream, or with ctx.
func (w *Watcher) Pipe(ctx context.Context, name string, s client.Session, r io.Reader) error {
	f, within, err := w.begin(ctx, name, s)
	if err != nil {
		return err
	}
	if err := f.before(ctx, s.Offset); err != nil {
		f.note("open incidents may be printed again: %v", err)
	}
	if within { // nothing else ends the line of the stream before
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

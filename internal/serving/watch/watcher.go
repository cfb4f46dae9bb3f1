// Package watch feeds streams to sessions line by line, goes on where it was, and shows the lines
// that stand out. A stream is a log that is followed (internal/serving/follow), the journal of
// systemd, or a pipe; the sessions are those of a server (api/client).
//
// A file's place is kept in a position, a small file of its own: which file the text of the session
// is from. How much of it the session has, the session says. So each line is in the session once,
// whenever the watching ends. Which lines were reported is in the position, too. What the session
// has and nobody was told of is reported at the next start, by a fork of the session from before.
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

// Watcher feeds streams to sessions. Its functions may be called from several goroutines at once if
// several streams are watched.
type Watcher struct {
	Client *client.Client
	Score  client.ScoreOptions // of lines; without an Offset
	// Line is told of each line, in order, and says whether it was shown: then the position is
	// written at once, so that it is not shown twice.
	Line func(Found) (shown bool, err error)
	// Before is told what a source's session knew of its incidents when its last line was reported,
	// if some were, and before any other line is; with LearnFalse it is not. Nil: nobody is told.
	Before func(source string, list client.IncidentList)
	// Behind is told how far behind a stream is, several times a second while it is fed.
	Behind func(Behind)
	// Note is told what somebody should know.
	Note func(text string)
	// Field is the path of the value of lines in JSON that alone is read; nil: lines are read
	// whole.
	Field []string
}

// Stream is a log, or the journal of systemd, to be watched.
type Stream struct {
	Name     string // to show
	Session  client.Session
	Position string // the file that keeps the position; "", as with LearnFalse: none does

	Log     follow.Log
	Last    int64           // see follow.Options
	Ends    bool            // see follow.Options
	Journal *follow.Journal // nil: it is a log
}

// path names what the stream is read from, for its position.
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

// options are those with which the stream's log is followed.
func (in *Stream) options(field []string, note func(string)) follow.Options {
	return follow.Options{Log: in.Log, Last: in.Last, Ends: in.Ends, Field: field, Note: note}
}

// feeding is a stream on its way to its session.
type feeding struct {
	*Watcher
	name    string
	session client.Session
	feeder  *client.Feeder
	keeper  *keeper // nil: nobody keeps a position
	unread  func() int64

	lag    lag
	sent   int64 // bytes that were given to the feeder
	done   int64 // of these, in lines that have come back
	waited time.Time

	unwritten bool // the position could not be written, and that was told

	told   int64 // records up to this offset of the session have been told
	untold bool  // a record is under way that was not
}

// begin makes a feeder of a session. It asks the session first whether it is within a line, which
// also makes its state warm.
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

// DivergedNote says how often fast weights diverged, what became of them, and what helps.
func DivergedNote(times int64) string {
	return fmt.Sprintf("the fast weights diverged %s and were reset to zero; try a lower learning "+
		"rate or another method", english.Plural(int(times), "time", ""))
}

func (f *feeding) note(format string, args ...any) {
	f.Note(f.name + ": " + fmt.Sprintf(format, args...))
}

// noteEvery is how often it is said that the server is waited for.
const noteEvery = 10 * time.Second

func (f *feeding) waiting(cause error, pause time.Duration) {
	if time.Since(f.waited) > noteEvery {
		f.waited = time.Now()
		f.note("waiting for the server: %v", cause)
	}
}

// event takes in what the session says of a line.
func (f *feeding) event(e client.Event) error {
	if e.Line == nil {
		return nil
	}
	end, record := e.Line.Offset+e.Line.Bytes, f.records()
	if record && end <= f.told { // when nothing came behind it, or before a restart
		return nil
	}
	shown, err := f.Line(Found{f.name, *e.Line})
	if err != nil {
		return err
	}
	f.told = end
	if f.Score.Learn != client.LearnFalse { // else the next piece has the same offset again
		f.done = max(f.done, end-f.session.Offset)
	}
	f.look(false)
	if f.keeper != nil && (e.Line.Ended || record) {
		f.tryLater(f.keeper.reported(end, shown))
	}
	return nil
}

// records reports whether the session is asked for records of its own text.
func (f *feeding) records() bool {
	return f.Score.Records && f.Score.Learn != client.LearnFalse
}

// look says how far behind the stream is, if it is time or has to be.
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

// read has a piece scored that the session does not take in.
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
	ctx, cancel := context.WithCancel(ctx) // the end of what reads the journal
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
	if within && !resumed { // the line has no other end
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
		if f.keeper != nil && f.done == f.sent { // else the session knows where it is
			err = errors.Join(err, f.keeper.end(f.feeder.Offset()))
		}
		f.skipped(from.Skipped())
		return err
	}
}

// skipped tells how much was not read.
func (f *feeding) skipped(bytes int64) {
	if bytes > 0 {
		f.note("%s skipped", humanize.IBytes(uint64(bytes)))
	}
}

// endLine ends the line that the session is within. What follows is the beginning of another file,
// if a file was read before.
func (f *feeding) endLine(ctx context.Context) error {
	if f.keeper != nil && len(f.keeper.position.Parts) > 0 {
		return f.piece(ctx, follow.Piece{Text: []byte{'\n'}})
	}
	if f.keeper != nil {
		f.keeper.next++
	}
	return f.feed(ctx, []byte{'\n'})
}

// ended tells the record under way, when the stream has ended with an error, and returns the error.
func (f *feeding) ended(err error) error {
	if err == io.EOF {
		return f.end()
	}
	return cmp.Or(f.end(), err)
}

// end reports a last line without a newline, or the record under way.
func (f *feeding) end() error {
	f.untold = false
	if f.Score.Learn == client.LearnFalse {
		return nil // it was reported
	}
	return f.feeder.End()
}

// await gives what comes next. When nothing has come for some time, the record under way is told,
// and the position notes what was reported.
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

// tryLater tells once that a position could not be written. It is written again with the next text.
func (f *feeding) tryLater(err error) {
	if err != nil && !f.unwritten {
		f.note("%v; trying again", err)
	}
	f.unwritten = err != nil
}

// piece feeds a piece, when the position says that it comes.
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
			f.note("incidents that are open may be printed again: %v", err)
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
		f.note("the file that was read last is not there any more: it was deleted or truncated. "+
			"What it had behind byte %d is missing", place.Offset)
	}
	return w, resumed, nil
}

// before tells the incidents of the session as of an offset up to which lines were reported.
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

// again reports the lines that the session has and that were not reported.
func (f *feeding) again(ctx context.Context, p *Position, read reader) error {
	from, to := p.Reported, f.session.Offset
	f.told = from
	if from >= to {
		return nil
	}
	text, err := p.text(from, to, read)
	if err != nil {
		f.note("%d bytes are in the session, and their lines were not reported: %v", to-from, err)
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

// Pipe feeds a stream that can be read once. It ends with the stream, or with ctx.
func (w *Watcher) Pipe(ctx context.Context, name string, s client.Session, r io.Reader) error {
	f, within, err := w.begin(ctx, name, s)
	if err != nil {
		return err
	}
	if err := f.before(ctx, s.Offset); err != nil {
		f.note("incidents that are open may be printed again: %v", err)
	}
	if within { // what the stream before has left has no other end
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

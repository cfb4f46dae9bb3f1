// Package watch feeds streams to sessions line by line, goes on where it was, and shows the lines
// that stand out. A stream is a file that is followed (internal/serving/follow) or a pipe; the sessions are
// those of a server (api/client).
//
// A file's place is kept in a position, a small file of its own: which file the text of the session
// is from. How much of it the session has, the session says. So each line is in the session once,
// whenever the watching ends. Which lines were reported is in the position, too. What the session
// has and nobody was told of is reported at the next start, by a fork of the session from before.
package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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
	// Behind is told how far behind a stream is, several times a second while it is fed.
	Behind func(Behind)
	// Note is told what somebody should know.
	Note func(text string)
}

// File is a file to be watched.
type File struct {
	Name     string // to show
	Path     string
	Session  client.Session
	Position string // the file that keeps the position; "", as with LearnFalse: none does
	From     int64  // where to begin if there is no position
	Follow   bool   // wait for more at the end
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
		Score: f.Score, Event: f.event, Waiting: f.waiting,
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
	shown, err := f.Line(Found{f.name, *e.Line})
	if err != nil {
		return err
	}
	end := e.Line.Offset + e.Line.Bytes
	if f.Score.Learn != client.LearnFalse { // else the next piece has the same offset again
		f.done = max(f.done, end-f.session.Offset)
	}
	f.look(false)
	if f.keeper != nil && e.Line.Ended {
		return f.keeper.reported(end, shown)
	}
	return nil
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
	f.done = f.sent
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

// File feeds a file. It ends with the file or, if the file is followed, with ctx.
func (w *Watcher) File(ctx context.Context, in File) error {
	f, within, err := w.begin(ctx, in.Name, in.Session)
	if err != nil {
		return err
	}
	follower, resumed, err := f.open(ctx, in)
	if err != nil {
		return err
	}
	defer follower.Close()
	f.unread = follower.Unread
	if within && !resumed { // the line has no other end
		begin := in.From
		if f.keeper != nil && len(f.keeper.position.Parts) > 0 {
			begin = 0 // of the file that has taken the place of the one that was read
		}
		err := f.piece(ctx, follow.Piece{Text: []byte{'\n'}, From: begin, To: begin})
		if err != nil {
			return err
		}
	}
	for {
		p, err := f.next(ctx, follower, in.Follow)
		if err == nil {
			err = f.piece(ctx, p)
		}
		if err == nil {
			continue
		}
		if err == io.EOF {
			err = f.end()
		}
		if f.keeper != nil && f.done == f.sent { // else the session knows where it is
			err = errors.Join(err, f.keeper.end(f.feeder.Offset()))
		}
		return err
	}
}

// end reports a last line without a newline.
func (f *feeding) end() error {
	if f.Score.Learn == client.LearnFalse {
		return nil // it was reported
	}
	return f.feeder.End()
}

// next gives the next piece of a file.
func (f *feeding) next(ctx context.Context, w *follow.Follower, wait bool) (follow.Piece, error) {
	if wait && f.keeper != nil && f.keeper.stale {
		soon, cancel := context.WithTimeout(ctx, reportEvery)
		p, err := w.Next(soon)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return p, err
		}
		if err := f.keeper.idle(); err != nil {
			return follow.Piece{}, err
		}
	}
	if wait {
		return w.Next(ctx)
	}
	p, err := w.Rest()
	if err == nil && len(p.Text) == 0 {
		err = io.EOF
	}
	return p, err
}

func (f *feeding) piece(ctx context.Context, p follow.Piece) error {
	if f.keeper != nil {
		if err := f.keeper.announce(p); err != nil {
			return err
		}
	}
	return f.feed(ctx, p.Text)
}

// open opens a file at the session's place in it, or where it is to begin.
func (f *feeding) open(ctx context.Context, in File) (w *follow.Follower, resumed bool, err error) {
	if in.Position == "" {
		w, err = follow.Open(in.Path, in.From)
		return w, false, err
	}
	f.keeper = &keeper{file: in.Position, next: in.Session.Offset, position: Position{
		Version: positionVersion, Session: in.Session.ID, Path: in.Path, Reported: in.Session.Offset,
	}}
	had, err := readPosition(in.Position)
	if err != nil {
		return nil, false, err
	}
	if had == nil {
		w, err = follow.Open(in.Path, in.From)
		return w, false, err
	}
	place, err := had.place(in.Session.Offset)
	if err != nil {
		return nil, false, fmt.Errorf("%w, or delete %s", err, in.Position)
	}
	f.keeper.position = *had
	f.keeper.position.Path = in.Path
	if err := f.again(ctx, had); err != nil {
		return nil, false, err
	}
	w, resumed, err = follow.Resume(in.Path, place, had.others(in.Session.Offset)...)
	if err == nil && !resumed {
		f.note("the file that was read last, up to its byte %d, is not there any more: it was "+
			"rotated and compressed, deleted, or truncated. What it had behind is missing",
			place.Offset)
	}
	return w, resumed, err
}

// again reports the lines that the session has and that were not reported.
func (f *feeding) again(ctx context.Context, p *Position) error {
	from, to := p.Reported, f.session.Offset
	if from >= to {
		return nil
	}
	text, err := p.text(from, to)
	if err != nil {
		f.note("%d bytes are in the session, and their lines were not reported: %v", to-from, err)
		return nil
	}
	o := f.options()
	o.Score.Offset = nil
	o.Event = func(e client.Event) error {
		if e.Line == nil || !e.Line.Ended {
			return nil
		}
		_, err := f.Line(Found{f.name, *e.Line})
		from = e.Line.Offset + e.Line.Bytes
		return err
	}
	err = f.Client.Replay(ctx, f.session.ID, from, text, o)
	return errors.Join(err, f.keeper.reported(from, true))
}

// Pipe feeds a stream that can be read once. It ends with the stream, or with ctx.
func (w *Watcher) Pipe(ctx context.Context, name string, s client.Session, r io.Reader) error {
	f, within, err := w.begin(ctx, name, s)
	if err != nil {
		return err
	}
	if within { // what the stream before has left has no other end
		if err := f.feed(ctx, []byte{'\n'}); err != nil {
			return err
		}
	}
	p := newPipe(r)
	f.unread = p.waiting
	for {
		text, err := p.next(ctx)
		if err == io.EOF {
			return f.end()
		}
		if err == nil {
			err = f.feed(ctx, text)
		}
		if err != nil {
			return err
		}
	}
}

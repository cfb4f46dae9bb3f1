package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"time"
)

const (
	mediaBytes       = "application/octet-stream"
	mediaNDJSON      = "application/x-ndjson"
	mediaEventStream = "text/event-stream"
)

// waitMax is the longest that a request may ask to wait for its turn.
const waitMax = 10 * time.Minute

// Learn says whether a text becomes the session's, which learns from it: LearnTrue, LearnFalse, or
// LearnUnflagged, with which the text becomes the session's, and lines that are flagged are not
// learnt.
type Learn = ScoreParamsLearn

// ScoreOptions say how a text is scored, and what events tell of it. The zero value makes the text
// the session's, and gives an event for each chunk.
type ScoreOptions struct {
	// Lines asks for an event for each line of the text, instead of each chunk.
	Lines     bool
	Incidents bool // of the lines only the first, the last, and those with Incidents; with Lines
	Records   bool // tell of records of several lines instead, by Event.Line; with Lines
	// RecordStart is the pattern of how records begin from here on, in RE2; "": as the session has
	// it.
	RecordStart string
	// TroubleWords are words of trouble that lines are rated by, too, separated by white space, if
	// they begin with this text; "": as the session has them. With Lines.
	TroubleWords string
	NoText       bool // leave the text out of the events of lines
	Tokens       bool // tell of each line what each of its bytes has cost, in bits

	LogProbs bool // tell of each chunk the log-probability of each token
	Top      int  // and so many of the likeliest tokens beside each, up to 20; only with LogProbs
	Updates  bool // tell of each update of the fast weights, after it

	Learn Learn // "" is LearnTrue. LearnUnflagged needs Lines
	// the largest P of a line that is flagged, with LearnUnflagged or Incidents. 0 is 1/1000
	Threshold float64

	// Offset is where the caller expects the session to be, in bytes. A session that is elsewhere
	// is left as it is, and the error is an [Error] of type ProblemOffsetConflict. Nil is anywhere.
	Offset *int64
}

// params are the parameters of a request that waits so long for its turn.
func (o ScoreOptions) params(wait time.Duration) ScoreParams {
	p := ScoreParams{
		Offset: o.Offset, Tokens: orNil(o.Tokens), Logprobs: orNil(o.LogProbs),
		TopLogprobs: orNil(o.Top), Updates: orNil(o.Updates), Learn: orNil(o.Learn),
		Threshold: orNil(o.Threshold), Wait: waitParam(wait),
	}
	switch {
	case o.Lines && o.Records:
		p.Unit, p.RecordStart = new(UnitRecord), orNil(o.RecordStart)
	case o.Lines && o.Incidents:
		p.Unit = new(UnitIncident)
	case o.Lines:
		p.Unit = new(UnitLine)
	}
	if o.Lines {
		p.TroubleWords = orNil(o.TroubleWords)
	}
	if o.NoText {
		p.Text = new(false)
	}
	return p
}

// orNil points to a value, or is nil for the zero value: the parameter is left out.
func orNil[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// waitParam is how long a request waits for its turn; nil if it does not.
func waitParam(d time.Duration) *Wait {
	if d = min(d, waitMax); d < time.Millisecond {
		return nil
	}
	return new(fmt.Sprintf("%dms", d.Milliseconds()))
}

// An Event is what a score tells: just one of its fields is not nil.
type Event struct {
	Chunk   *ChunkEvent
	Line    *LineEvent
	Update  *UpdateEvent
	Summary *SummaryEvent // the last event of a text
}

// Score scores a text and gives the events as they come, while the text is still being read: a
// Chunk, or a Line, for each, and a Summary at the end. An error ends the events; what was told
// before it is in the session, unless o.Learn is LearnFalse. Where the caller leaves the loop the
// request ends, and so does the reading of the text.
func (c *Client) Score(
	ctx context.Context, session string, text io.Reader, o ScoreOptions,
) iter.Seq2[Event, error] {
	return c.score(ctx, session, text, o.params(c.patience))
}

func (c *Client) score(
	ctx context.Context, session string, text io.Reader, p ScoreParams,
) iter.Seq2[Event, error] {
	ask := func(ctx context.Context) made {
		return request(newScoreRequest(ctx, c.base, session, p, mediaBytes, text))
	}
	return streamed(ctx, c, mediaNDJSON, ask, decodeScore)
}

func decodeScore(kind string, object []byte) (e Event, last bool, err error) {
	switch kind {
	case string(EventChunk):
		e.Chunk, err = decoded[ChunkEvent](object)
	case string(EventLine):
		e.Line, err = decoded[LineEvent](object)
	case string(EventUpdate):
		e.Update, err = decoded[UpdateEvent](object)
	case string(EventSummary):
		e.Summary, err = decoded[SummaryEvent](object)
	default:
		err =
			fmt.Errorf(
				"client: an event of type %q, expected chunk, line, update, summary or error",
				kind)
	}
	return e, e.Summary != nil, err
}

// ScoreText scores a text that is there in the whole, and gives the summary. With o.Lines the lines
// are in the summary's Lines, as many as there is room for.
func (c *Client) ScoreText(
	ctx context.Context, session string, text []byte, o ScoreOptions,
) (SummaryEvent, error) {
	return object[SummaryEvent](c, request(newScoreRequest(
		ctx, c.base, session, o.params(c.patience), mediaBytes, bytes.NewReader(text))))
}

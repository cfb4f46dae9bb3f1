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

// waitMax is the longest time that a request may wait for its turn.
const waitMax = 10 * time.Minute

// Learn says whether a text enters the session and is learned. With LearnTrue, the text enters and
// is learned; with LearnFalse, the session does not change. With LearnUnflagged, the text enters,
// but flagged lines are not learned.
type Learn = ScoreParamsLearn

// ScoreOptions configures how a text is scored, and what the events contain. With the zero value
// the text enters the session, and each chunk gets an event.
type ScoreOptions struct {
	// Lines requests an event for each line instead of each chunk.
	Lines     bool
	Incidents bool // report only lines with incidents, and the first and last line; needs Lines
	Records   bool // report records, which may have several lines, in Event.Line; needs Lines
	// RecordStart is an RE2 pattern that matches the first line of a record, for this text and
	// later texts. "" keeps the session's pattern.
	RecordStart string
	// TroubleWords are words, separated by white space. A line that contains one of the words is
	// rated as more unusual. Only the first text that is fed with Lines can set the words; "" keeps
	// the session's words.
	TroubleWords string
	NoText       bool
	Tokens       bool // report the bits of each byte of a line

	LogProbs bool // report the log-probability of each token of a chunk
	Top      int  // number of likeliest tokens to report with each token, up to 20; needs LogProbs
	Updates  bool // report each update of the fast weights

	Learn Learn // "" means LearnTrue; LearnUnflagged needs Lines
	// Threshold is the largest rating P of a flagged line, for LearnUnflagged and Incidents; 0
	// means 1/1000.
	Threshold float64

	// Offset is the session's expected offset in bytes. If the actual offset is different, the
	// session does not change, and the error is an [Error] of type ProblemOffsetConflict. nil
	// accepts any offset.
	Offset *int64
}

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

// orNil returns a pointer to v, or nil if v is the zero value. A nil parameter is omitted from the
// request.
func orNil[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func waitParam(d time.Duration) *Wait {
	if d = min(d, waitMax); d < time.Millisecond {
		return nil
	}
	return new(fmt.Sprintf("%dms", d.Milliseconds()))
}

// An Event is one event in the answer of [Client.Score]. Exactly one field is not nil.
type Event struct {
	Chunk   *ChunkEvent
	Line    *LineEvent
	Update  *UpdateEvent
	Summary *SummaryEvent
}

// Score scores a text and returns events as they arrive, while the text is still being read. The
// events are a Chunk for each chunk or a Line for each line, and a Summary at the end. After an
// error no event follows. The text of the events before the error is in the session, unless o.Learn
// is LearnFalse. If the caller stops iterating, the request and the reading end.
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
				"client: found an event of type %q, expected chunk, line, update, summary or error",
				kind)
	}
	return e, e.Summary != nil, err
}

// ScoreText scores a complete text and returns the summary. With o.Lines, the summary also lists
// the lines, as far as the server's memory limit allows.
func (c *Client) ScoreText(
	ctx context.Context, session string, text []byte, o ScoreOptions,
) (SummaryEvent, error) {
	return object[SummaryEvent](c, request(newScoreRequest(
		ctx, c.base, session, o.params(c.patience), mediaBytes, bytes.NewReader(text))))
}

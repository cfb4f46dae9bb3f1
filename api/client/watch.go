package client

import (
	"context"
	"fmt"
	"io"
	"iter"
)

// WatchOptions configures the events for text that other clients feed to a session. The zero value
// requests an event, with text, for each chunk of later text.
type WatchOptions struct {
	Lines     bool // report lines instead of chunks, if the session is fed with lines
	Incidents bool // report only lines with incidents; needs Lines
	Records   bool // report records instead of lines, if the session is fed with records
	NoText    bool
	Tokens    bool // report the bits of each byte of a line
	LogProbs  bool // report the log-probability of each token of a chunk
	Top       int  // number of likeliest tokens to report with each token, up to 20; needs LogProbs
	Updates   bool // report each update of the fast weights

	// Offset is the end of the text that the caller already has. If the session has more text, the
	// first event after Start is a Gap. If Offset is nil, the events begin at the session's current
	// end.
	Offset *int64
}

func (o WatchOptions) params() WatchSessionParams {
	p := WatchSessionParams{
		Offset: o.Offset, Tokens: orNil(o.Tokens), Logprobs: orNil(o.LogProbs),
		TopLogprobs: orNil(o.Top), Updates: orNil(o.Updates),
	}
	switch {
	case o.Lines && o.Records:
		p.Unit = new(UnitRecord)
	case o.Lines && o.Incidents:
		p.Unit = new(UnitIncident)
	case o.Lines:
		p.Unit = new(UnitLine)
	}
	if o.NoText {
		p.Text = new(false)
	}
	return p
}

// A SessionEvent is an event of a watched session. Exactly one field is not nil.
type SessionEvent struct {
	Start  *StartEvent
	Chunk  *ChunkEvent
	Line   *LineEvent
	Update *UpdateEvent
	// Gap reports that events were omitted, because the caller reads too slowly or started late.
	Gap *GapEvent
}

// Watch returns events for text that other clients feed to a session, until the caller stops
// iterating or the context ends. An error is the last event: an [Error] of type
// ProblemSessionNotFound if the session is deleted, and io.ErrUnexpectedEOF if the connection
// breaks. To resume, set o.Offset to the end of the text received.
func (c *Client) Watch(
	ctx context.Context, session string, o WatchOptions,
) iter.Seq2[SessionEvent, error] {
	ask := func(ctx context.Context) made {
		return request(newWatchSessionRequest(ctx, c.base, session, o.params()))
	}
	return streamed(ctx, c, mediaNDJSON, ask, decodeWatched)
}

func decodeWatched(kind string, object []byte) (e SessionEvent, last bool, err error) {
	switch kind {
	case string(EventStart):
		e.Start, err = decoded[StartEvent](object)
	case string(EventChunk):
		e.Chunk, err = decoded[ChunkEvent](object)
	case string(EventLine):
		e.Line, err = decoded[LineEvent](object)
	case string(EventUpdate):
		e.Update, err = decoded[UpdateEvent](object)
	case string(EventGap):
		e.Gap, err = decoded[GapEvent](object)
	default:
		err =
			fmt.Errorf("client: found an event of type %q, expected start, chunk, line, update, "+
				"gap or error", kind)
	}
	return e, false, err
}

// Text returns up to length bytes of a session's text, beginning at an offset. length is at most
// 1048576.
func (c *Client) Text(ctx context.Context, session string, offset, length int64) ([]byte, error) {
	answer, err := c.send(request(newGetTextRequest(ctx, c.base, session,
		GetTextParams{Offset: &offset, Length: &length})), mediaBytes)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("client: session %s: reading its text: %w", session, err)
	}
	return text, nil
}

// Scores returns the bits of a session's text, beginning at an offset, as computed when the text
// was fed. Parameter points is the approximate number of parts into which the text is divided.
func (c *Client) Scores(
	ctx context.Context, session string, offset int64, points int,
) (PastScores, error) {
	return object[PastScores](c, request(newGetScoresRequest(ctx, c.base, session,
		GetScoresParams{Offset: &offset, Points: &points})))
}

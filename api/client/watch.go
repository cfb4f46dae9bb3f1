package client

import (
	"context"
	"fmt"
	"io"
	"iter"
)

// WatchOptions say what is told of the text that others feed to a session. The zero value asks for
// an event for each chunk, with its text, from now on.
type WatchOptions struct {
	Lines     bool // an event for each line instead, where the session has lines
	Incidents bool // of the lines only those with Incidents; with Lines
	Records   bool // tell of records instead, where the session has any; with Lines
	NoText    bool // leave the text out
	Tokens    bool // tell of each line what each of its bytes has cost, in bits
	LogProbs  bool // tell of each chunk the log-probability of each token
	Top       int  // and so many of the likeliest tokens beside each, up to 20; only with LogProbs
	Updates   bool // tell of each update of the fast weights

	// Offset is up to where the caller has the session's text: if the session is further, there is
	// a Gap. Nil asks for none.
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

// A SessionEvent is what is told of a session that is watched: just one of its fields is not nil.
type SessionEvent struct {
	Start  *StartEvent // always the first
	Chunk  *ChunkEvent
	Line   *LineEvent
	Update *UpdateEvent
	// events that were left out, since the caller takes them too slowly or came late
	Gap *GapEvent
}

// Watch tells of what others feed to a session, as it happens, until the caller leaves the loop or
// the context ends. An error ends the events: an [Error] of type ProblemSessionNotFound when the
// session is deleted, and io.ErrUnexpectedEOF when the connection is cut. A caller who watches
// again says with o.Offset how far the text went.
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
			fmt.Errorf("client: an event of type %q, expected start, chunk, line, update, gap or "+
				"error", kind)
	}
	return e, false, err
}

// Text gives a part of a session's text: from an offset on so many bytes, at most 1048576, or what
// there is of them.
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

// Scores tells what a session's text has cost when it was fed, from an offset on, in about so many
// parts.
func (c *Client) Scores(
	ctx context.Context, session string, offset int64, points int,
) (PastScores, error) {
	return object[PastScores](c, request(newGetScoresRequest(ctx, c.base, session,
		GetScoresParams{Offset: &offset, Points: &points})))
}

package client

import (
	"context"
	"fmt"
	"iter"
)

// StopAt returns a Stop for completions that end before the first occurrence of any of 1 to 4
// texts.
func StopAt(texts ...string) *CompletionRequest_Stop {
	stop := new(CompletionRequest_Stop)
	if err := stop.FromCompletionRequestStop1(texts); err != nil {
		panic(err) // never happens: a list of strings always encodes as JSON
	}
	return stop
}

// Complete samples text that continues a session's text and a prompt. The zero request samples up
// to 128 tokens after the session's text, and does not change the session.
func (c *Client) Complete(
	ctx context.Context, session string, r CompletionRequest,
) (Completion, error) {
	r.Stream = nil
	return object[Completion](c, c.completion(ctx, session, r))
}

// A CompletionEvent is an event of a streamed completion. Exactly one field is not nil.
type CompletionEvent struct {
	Piece *PieceEvent
	Done  *DoneEvent
}

// CompleteStream is like [Client.Complete], but returns the text in pieces: an event with a Piece
// for each part, and an event with Done at the end. An error is the last event. If the caller stops
// iterating, the sampling ends.
func (c *Client) CompleteStream(
	ctx context.Context, session string, r CompletionRequest,
) iter.Seq2[CompletionEvent, error] {
	ask := func(ctx context.Context) made {
		r.Stream = new(true)
		return c.completion(ctx, session, r)
	}
	return streamed(ctx, c, mediaEventStream, ask, decodeCompletion)
}

func (c *Client) completion(ctx context.Context, session string, r CompletionRequest) made {
	body, err := jsonBody(r)
	if err != nil {
		return made{nil, err}
	}
	params := CompleteParams{Wait: waitParam(c.patience)}
	return request(newCompleteRequest(ctx, c.base, session, params, mediaJSON, body))
}

func decodeCompletion(kind string, object []byte) (e CompletionEvent, last bool, err error) {
	switch kind {
	case string(EventPiece):
		e.Piece, err = decoded[PieceEvent](object)
	case string(EventDone):
		e.Done, err = decoded[DoneEvent](object)
	default:
		err = fmt.Errorf("client: found an event of type %q, expected piece, done or error", kind)
	}
	return e, e.Done != nil, err
}

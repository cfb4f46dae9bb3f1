package client

import (
	"context"
	"fmt"
	"iter"
)

// StopAt is the Stop of a completion that ends before the first occurrence of any of 1 to 4 texts.
func StopAt(texts ...string) *CompletionRequest_Stop {
	stop := new(CompletionRequest_Stop)
	if err := stop.FromCompletionRequestStop1(texts); err != nil {
		panic(err) // a list of strings is always JSON
	}
	return stop
}

// Complete samples text that continues a session's text and a prompt. The zero request samples up
// to 128 tokens after the session's text, and leaves the session as it was.
func (c *Client) Complete(
	ctx context.Context, session string, r CompletionRequest,
) (Completion, error) {
	r.Stream = nil
	return object[Completion](c, c.completion(ctx, session, r))
}

// A CompletionEvent is what a streamed completion tells: just one of its fields is not nil.
type CompletionEvent struct {
	Piece *PieceEvent // the next piece of the text
	Done  *DoneEvent  // the last event
}

// CompleteStream is [Client.Complete] that gives the text while it grows: a Piece for each part of
// it, and Done at the end. An error ends the events. Where the caller leaves the loop the sampling
// ends.
func (c *Client) CompleteStream(
	ctx context.Context, session string, r CompletionRequest,
) iter.Seq2[CompletionEvent, error] {
	ask := func(ctx context.Context) made {
		r.Stream = new(true)
		return c.completion(ctx, session, r)
	}
	return streamed(ctx, c, mediaEventStream, ask, decodeCompletion)
}

// completion is the request of a completion, which waits for its turn if it needs one.
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
		err = fmt.Errorf("client: an event of type %q, expected piece, done or error", kind)
	}
	return e, e.Done != nil, err
}

package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// objects returns the JSON object of each event in a streamed answer: server-sent events if sse is
// true, else JSON lines. A stream that breaks off within an event ends with io.ErrUnexpectedEOF.
// The caller checks that the stream has its last event.
func objects(r io.Reader, sse bool) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for lines := bufio.NewReader(r); ; {
			line, err := lines.ReadBytes('\n')
			if err == io.EOF && len(line) == 0 {
				return
			}
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				yield(nil, err)
				return
			}
			object, data := line, len(line) > 1 // an empty line is a keep-alive
			// An event has its data on one line. All other lines are ignored.
			if sse {
				object, data = bytes.CutPrefix(line, []byte("data:"))
			}
			if data && !yield(object, nil) {
				return
			}
		}
	}
}

type header struct {
	Type    string
	Problem *Error
}

// decoder decodes the JSON object of an event, and reports whether the event is the last of its
// stream.
type decoder[E any] func(kind string, object []byte) (e E, last bool, err error)

// streamed makes a request and returns the events of the answer as they arrive. Parameter ask
// creates the request; media is the media type of the answer. If the caller stops iterating, the
// request ends.
func streamed[E any](
	ctx context.Context, c *Client, media string, ask func(context.Context) made, decode decoder[E],
) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answer, err := c.send(ask(ctx), media)
		if err != nil {
			var none E
			yield(none, err)
			return
		}
		defer answer.Body.Close()
		for e, err := range events(answer.Body, media == mediaEventStream, decode) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// events decodes the events of a streamed answer. An error event becomes an *Error. A stream that
// breaks off before its last event ends with io.ErrUnexpectedEOF.
func events[E any](r io.Reader, sse bool, decode decoder[E]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		for object, err := range objects(r, sse) {
			h := header{Type: beginning(object)}
			if err == nil && h.Type == "" {
				err = json.Unmarshal(object, &h)
			}
			if err == nil && h.Problem != nil {
				err = h.Problem
			}
			if err != nil {
				yield(none, err)
				return
			}
			e, last, err := decode(h.Type, object)
			if !yield(e, err) || err != nil || last {
				return
			}
		}
		yield(none, io.ErrUnexpectedEOF)
	}
}

// beginning returns an event's type if the JSON object starts with the type. Otherwise, and for
// error events, it returns "", and the caller decodes the whole object.
func beginning(object []byte) string {
	rest, ok := bytes.CutPrefix(object, []byte(`{"type":"`))
	if kind, _, ended := bytes.Cut(rest, []byte{'"'}); ok && ended && string(kind) != "error" {
		return string(kind)
	}
	return ""
}

func decoded[T any](object []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(object, v); err != nil {
		return nil, fmt.Errorf("client: decoding an event as %T: %w", *v, err)
	}
	return v, nil
}

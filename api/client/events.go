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

// objects reads a streamed answer: the JSON object of each event. The stream is one of JSON lines
// or, if sse is true, of server-sent events. What is cut off within an event is
// io.ErrUnexpectedEOF; the caller knows whether an end between two events is the right one.
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
			object, data := line, len(line) > 1 // an empty line says that there is nothing new
			// each event has one line of data, and only that is needed
			if sse {
				object, data = bytes.CutPrefix(line, []byte("data:"))
			}
			if data && !yield(object, nil) {
				return
			}
		}
	}
}

// header is what all events have in common.
type header struct {
	Type    string
	Problem *Error // of an error
}

// decoder makes an event of an object of a type, and tells the last of a stream.
type decoder[E any] func(kind string, object []byte) (e E, last bool, err error)

// streamed makes a request and gives the events of its answer as they come, in the form of media.
// Where the caller leaves the loop the request, which is made under its context, ends.
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

// events reads a streamed answer's events. An object of type error is an *Error. A stream that
// ends before its last event ends with io.ErrUnexpectedEOF.
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

// beginning is the type of an object that begins with it, as events do; "" where that is not so, or
// where there is more to know of the object.
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
		return nil, fmt.Errorf("client: an event that is no %T: %w", *v, err)
	}
	return v, nil
}

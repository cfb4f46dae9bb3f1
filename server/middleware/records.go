package middleware

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/intake"
	"github.com/lmserve/lmserve/server/answer"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

// jsonPeek is the number of bytes at the beginning of a JSON body in which the server looks for the
// member "text" or "base64". If the body begins with this member, the body is a text. The server
// reads every other body completely before it decides.
const jsonPeek = 64

type body struct {
	io.Reader
	io.Closer
}

type deliveryKey struct{}

// DeliveryOf returns the key of the delivery in a request's body, or "" if the delivery has no key.
// The result ok is false if the body is not a delivery.
func DeliveryOf(ctx context.Context) (key string, ok bool) {
	key, ok = ctx.Value(deliveryKey{}).(string)
	return key, ok
}

// Records converts bodies with log records to lines of plain text, if the operation accepts
// records. It marks such bodies as deliveries and holds them in memory.
func Records(
	c *contract.Contract, memory *Memory, problems *answer.Problems,
) func(http.Handler) http.Handler {
	return wrap(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		form, err := formOfRecords(r)
		if err != nil {
			problems.Answer(w, r, err)
			return
		}
		isJSON := form.media == contract.MediaJSON
		if !c.Operation(r).Records || !contract.HasBody(r) || !isJSON && !form.isDelivery() {
			next.ServeHTTP(w, r)
			return
		}
		if isJSON && form.fields == nil {
			begun := bufio.NewReaderSize(r.Body, jsonPeek)
			r.Body = body{begun, r.Body}
			// An error of Peek needs no check, because the next read returns the same error.
			if begin, _ := begun.Peek(jsonPeek); intake.BeginsText(begin) {
				r.Body = http.MaxBytesReader(w, r.Body, limits.JSONBodyBytesMax)
				if form.key != "" {
					r = r.WithContext(context.WithValue(r.Context(), deliveryKey{}, form.key))
				}
				next.ServeHTTP(w, r)
				return
			}
		}
		raw, taken, err := TakeWhole(r.Context(), memory, r.Body, LogMemory)
		if err != nil {
			problems.Answer(w, r, err)
			return
		}
		defer taken.Keep(0)
		switch isText := isJSON && form.fields == nil && !intake.IsRecords(raw); {
		case !isText:
			if raw, err = form.lines(raw); err != nil {
				problems.Answer(w, r, err)
				return
			}
			taken.Keep(limits.LogKeptFactor * int64(len(raw)))
			r.Header.Set("Content-Type", contract.MediaText)
		case len(raw) > limits.JSONBodyBytesMax:
			problems.Answer(w, r,
				problem.OfBody(&http.MaxBytesError{Limit: limits.JSONBodyBytesMax}))
			return
		default:
			taken.Keep(0) // the JSON reader reserves memory itself
		}
		if !isJSON || form.isDelivery() || r.Header.Get("Content-Type") == contract.MediaText {
			r = r.WithContext(context.WithValue(r.Context(), deliveryKey{}, form.key))
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		next.ServeHTTP(w, r)
	})
}

type recordsForm struct {
	media  string
	fields intake.Fields
	key    string // key of the delivery, or ""
}

// formOfRecords returns how to read a request's body. It checks the length of the query parameter
// `field` itself, because the contract's checks run later. Each name in `field` costs a lookup in
// each record.
func formOfRecords(r *http.Request) (f recordsForm, err error) {
	f.media, _ = contract.MediaTypeOf(r.Header.Get("Content-Type"))
	query := r.URL.Query()
	if field := query.Get("field"); field != "" {
		parts := 1 + strings.Count(field, ",") + strings.Count(field, "/")
		if len(field) > limits.FieldBytesMax || parts > limits.FieldPartsMax {
			return f, problem.Field(api.ProblemInvalidParameter, "field", problem.Quoted(field),
				fmt.Sprintf("at most %d bytes and at most %d field names", limits.FieldBytesMax,
					limits.FieldPartsMax))
		}
		f.fields = intake.ParseFields(field)
	}
	switch name := r.Header.Get("Idempotency-Key"); {
	case r.Header.Get(headerDelivery) != "":
		f.key = r.Header.Get(headerDelivery)
	case name != "":
		f.key = "key " + name
	case query.Has("once"):
		f.key = "body"
	}
	return f, nil
}

// isDelivery reports whether the headers and parameters declare the body a delivery. A JSON body
// without this declaration is still a delivery if it contains log records.
func (f *recordsForm) isDelivery() bool {
	switch f.media {
	case contract.MediaNDJSON, contract.MediaMsgpack, contract.MediaForm:
		return true
	}
	return f.fields != nil || f.key != ""
}

func (f *recordsForm) lines(body []byte) (text []byte, err error) {
	switch f.media {
	case contract.MediaMsgpack:
		text, _, err = intake.MessagePack(body, f.fields)
	case contract.MediaNDJSON, contract.MediaJSON:
		text, _, err = intake.Records(body, f.fields)
	default:
		if f.fields != nil {
			text, _, err = intake.Records(body, f.fields)
			break
		}
		text, _ = intake.Lines(body)
	}
	return text, err
}

// LogMemory returns the memory in bytes for parsing a log shipper's body of the given length.
func LogMemory(_ []byte, bytes int64) int64 { return limits.LogReadFactor * bytes }

// TakeWhole receives a log shipper's body completely, reserves the memory that parsing needs, and
// returns the body. The error is a problem.
func TakeWhole(
	ctx context.Context, memory *Memory, from io.Reader, need func(begin []byte, bytes int64) int64,
) (body []byte, taken *Taken, err error) {
	in, err := takeIn(http.MaxBytesReader(nil, io.NopCloser(from), limits.LogBodyBytesMax))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Close() }()
	if taken, err = memory.Take(ctx, need(in.head, in.bytes)); err != nil {
		return nil, nil, err
	}
	body = make([]byte, in.bytes)
	if _, err := io.ReadFull(in, body); err != nil {
		taken.Keep(0)
		return nil, nil, problem.OfBody(err)
	}
	return body, taken, nil
}

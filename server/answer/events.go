package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/problem"
)

// EventStream writes JSON objects as server-sent events or as NDJSON lines, each sent at once. The
// answer begins with the first of them, so that an error before it still has a status of its own.
type EventStream struct {
	w        http.ResponseWriter
	media    string // contract.MediaEventStream or contract.MediaNDJSON
	problems *Problems
	begun    bool
	gone     bool         // the client takes no more
	buf      bytes.Buffer // of one event; the next event uses its memory again
}

// NewEventStream makes a stream of this media type that answers on w.
func NewEventStream(w http.ResponseWriter, media string, problems *Problems) *EventStream {
	return &EventStream{w: w, media: media, problems: problems}
}

// NoID is the id of an event that has none.
const NoID = -1

// Send writes one event. Its name, which may be "", and id are seen in server-sent events only; the
// reader of NDJSON finds them in the object.
func (s *EventStream) Send(name string, id int64, object any) error {
	s.buf.Reset()
	if s.media == contract.MediaEventStream {
		if name != "" {
			s.buf.WriteString("event: " + name + "\n")
		}
		if id != NoID {
			s.buf.WriteString("id: ")
			s.buf.Write(strconv.AppendInt(s.buf.AvailableBuffer(), id, 10))
			s.buf.WriteByte('\n')
		}
		s.buf.WriteString("data: ")
	}
	// Encode ends the line, and JSON has no other line ends inside.
	if err := json.NewEncoder(&s.buf).Encode(object); err != nil {
		return err
	}
	if s.media == contract.MediaEventStream {
		s.buf.WriteByte('\n')
	}
	return s.flush()
}

// Done ends the events of OpenAI's interface, whose clients wait for just this.
func (s *EventStream) Done() error {
	s.buf.Reset()
	s.buf.WriteString("data: [DONE]\n\n")
	return s.flush()
}

// Idle says that there is no event, so that whoever stands between the server and its client keeps
// the connection: a comment, or among JSON lines an empty one.
func (s *EventStream) Idle() error {
	s.buf.Reset()
	if s.media == contract.MediaEventStream {
		s.buf.WriteString(": nothing new\n")
	}
	s.buf.WriteByte('\n')
	return s.flush()
}

func (s *EventStream) flush() error {
	s.begin()
	_, err := s.w.Write(s.buf.Bytes())
	if err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	s.gone = s.gone || err != nil
	return err
}

// begin sends the answer's headers, once.
func (s *EventStream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", s.media)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies that know this header pass events on at once
	s.w.WriteHeader(http.StatusOK)
}

// Fail ends the answer to a request that failed: with an event if the stream has begun and somebody
// is there to read it, otherwise by giving the error back.
func (s *EventStream) Fail(ctx context.Context, err error) error {
	err, gone := ended(ctx, err)
	if !s.begun || s.gone || gone {
		return err
	}
	doc := s.problems.Document(ctx, err)
	s.problems.refused(problem.Name(problem.Of(err).Type))
	s.problems.log.Info("stream ended early",
		zap.String("request_id", doc.RequestID), zap.String("problem", string(doc.Type)))
	if doc.Error != nil {
		return s.Send("", NoID, api.OpenAIErrorEvent{Error: *doc.Error})
	}
	return s.Send(string(api.EventError), NoID, api.ErrorEvent{Type: api.EventError, Problem: doc})
}

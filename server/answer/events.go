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

// EventStream writes JSON objects as server-sent events or as NDJSON lines, and sends each object
// at once. The answer begins with the first object. So a request that fails earlier gets its own
// HTTP status.
type EventStream struct {
	w        http.ResponseWriter
	media    string // contract.MediaEventStream or contract.MediaNDJSON
	problems *Problems
	begun    bool
	gone     bool
	buf      bytes.Buffer
}

// NewEventStream makes a stream of the given media type that writes to w.
func NewEventStream(w http.ResponseWriter, media string, problems *Problems) *EventStream {
	return &EventStream{w: w, media: media, problems: problems}
}

// NoID marks an event without an id.
const NoID = -1

// Send writes one event. Only server-sent events have the name, which may be "", and the id as
// separate fields. In NDJSON the object itself has both.
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
	// Encode ends the JSON with a newline, and the JSON contains no other newline.
	if err := json.NewEncoder(&s.buf).Encode(object); err != nil {
		return err
	}
	if s.media == contract.MediaEventStream {
		s.buf.WriteByte('\n')
	}
	return s.flush()
}

// Done writes the marker that clients of OpenAI's interface expect after the last event.
func (s *EventStream) Done() error {
	s.buf.Reset()
	s.buf.WriteString("data: [DONE]\n\n")
	return s.flush()
}

// Idle writes a comment, or an empty line in NDJSON, so that proxies keep an idle connection open.
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

func (s *EventStream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", s.media)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // asks proxies not to buffer events
	s.w.WriteHeader(http.StatusOK)
}

// Fail ends the answer to a failed request. If the stream has begun and the client is still there,
// Fail sends an error event. Otherwise it returns the error.
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

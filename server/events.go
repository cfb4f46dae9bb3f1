package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// eventStream writes JSON objects as server-sent events or as NDJSON lines, each sent at once. The answer begins with the first of them, so
// that an error before it still has a status of its own.
type eventStream struct {
	w     http.ResponseWriter
	media string // mediaEventStream or mediaNDJSON
	begun bool
	gone  bool         // the client took no more
	buf   bytes.Buffer // of one event, kept for the next
}

// send writes one event. Its name and id (where >= 0) are seen in server-sent events only; an NDJSON reader has them in the object.
func (s *eventStream) send(name string, id int64, object any) error {
	s.buf.Reset()
	if s.media == mediaEventStream {
		s.buf.WriteString("event: ")
		s.buf.WriteString(name)
		if id >= 0 {
			s.buf.WriteString("\nid: ")
			s.buf.Write(strconv.AppendInt(s.buf.AvailableBuffer(), id, 10))
		}
		s.buf.WriteString("\ndata: ")
	}
	if err := json.NewEncoder(&s.buf).Encode(object); err != nil { // ends the line; JSON has no others inside
		return err
	}
	if s.media == mediaEventStream {
		s.buf.WriteByte('\n')
	}
	s.begin()
	_, err := s.w.Write(s.buf.Bytes())
	if err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	s.gone = s.gone || err != nil
	return err
}

// begin sends the answer's headers, once.
func (s *eventStream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", s.media)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies that know it pass events on at once
	s.w.WriteHeader(http.StatusOK)
}

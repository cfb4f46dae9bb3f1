package answer

import "net/http"

// StatusClientGone is logged for a request whose client left before an answer began. The server
// never sends it.
const StatusClientGone = 499

// Recorder passes an answer on and records its status and size. The access log wraps every answer
// in a Recorder before other middleware adds its own writers.
type Recorder struct {
	http.ResponseWriter
	Status int    // 0: the answer has not begun
	Bytes  int64  // bytes of the answer's body sent so far
	Key    string // id of the caller's key; "" without a key
	Route  string // route of a request that was refused before the router ran
	Cut    bool   // the server cuts the connection, because another server failed
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (w *Recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *Recorder) WriteHeader(status int) {
	if w.Status == 0 && status >= http.StatusOK { // 1xx statuses precede the answer
		w.Status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *Recorder) Write(b []byte) (int, error) {
	if w.Status == 0 {
		w.Status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.Bytes += int64(n)
	return n, err
}

// Began reports whether the answer has begun.
func (w *Recorder) Began() bool { return w.Status != 0 }

// FinalStatus returns the status to log once the handler of r has returned.
func (w *Recorder) FinalStatus(r *http.Request) int {
	switch {
	case w.Began():
		return w.Status
	case r.Context().Err() != nil:
		return StatusClientGone
	case w.Cut:
		return http.StatusBadGateway
	}
	return http.StatusOK // net/http sends this status for a handler that wrote nothing
}

// RecorderOf finds the recorder inside the writers that middleware wrapped around it.
func RecorderOf(w http.ResponseWriter) *Recorder {
	for {
		if rec, ok := w.(*Recorder); ok {
			return rec
		}
		w = w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	}
}

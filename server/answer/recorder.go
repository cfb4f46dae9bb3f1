package answer

import "net/http"

// StatusClientGone is the status in the log of a request whose client left before an answer began.
// The server never sends it.
const StatusClientGone = 499

// Recorder passes an answer on and notes what was answered. The access log wraps one around every
// answer, under the writers of all other middleware.
type Recorder struct {
	http.ResponseWriter
	Status int    // 0: the answer has not begun
	Bytes  int64  // of the answer's body, as far as it was sent
	Key    string // id of the caller's key; "" if the server asks for none, or the request has none
	Route  string // of a request that was refused before the router had found its route
}

// Unwrap lets http.ResponseController through.
func (w *Recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *Recorder) WriteHeader(status int) {
	if w.Status == 0 && status >= http.StatusOK { // 1xx come before the answer
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

// FinalStatus gives the status for the log, once the handler of the request r is done.
func (w *Recorder) FinalStatus(r *http.Request) int {
	switch {
	case w.Began():
		return w.Status
	case r.Context().Err() != nil:
		return StatusClientGone
	}
	return http.StatusOK // what net/http sends for a handler that wrote nothing
}

// RecorderOf finds the recorder of an answer under the writers of other middleware.
func RecorderOf(w http.ResponseWriter) *Recorder {
	for {
		if rec, ok := w.(*Recorder); ok {
			return rec
		}
		w = w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	}
}

package session

import (
	"fmt"
	"runtime"
)

// Options of a Manager. A zero field stands for its default.
type Options struct {
	MaxSessions     int   // live sessions; SessionsDefault
	MaxMemoryBytes  int64 // state and text of all sessions together; MemoryBytesDefault
	MaxSessionBytes int64 // text of one session; SessionTextBytesDefault
	MaxQueue        int   // requests that wait for a session's turn or a worker; QueueDefault
	Threads         int   // workers, and threads of each, see scheduler; the number of processors
}

// Validate returns a *FieldError for the first option that is out of range.
func (o Options) Validate() error {
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"max_sessions", int64(o.MaxSessions), SessionsMax},
		{"max_memory_bytes", o.MaxMemoryBytes, 1 << 50},
		{"max_session_bytes", o.MaxSessionBytes, 1 << 50},
		{"max_queue", int64(o.MaxQueue), QueueMax},
		{"threads", int64(o.Threads), ThreadsMax},
	} {
		if f.value < 0 || f.value > f.max {
			return &FieldError{f.name, fmt.Sprint(f.value), fmt.Sprintf("0 (the default) to %d", f.max)}
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.MaxSessions = or(o.MaxSessions, SessionsDefault)
	o.MaxMemoryBytes = or(o.MaxMemoryBytes, MemoryBytesDefault)
	o.MaxSessionBytes = or(o.MaxSessionBytes, SessionTextBytesDefault)
	o.MaxQueue = or(o.MaxQueue, QueueDefault)
	o.Threads = or(o.Threads, runtime.GOMAXPROCS(0))
	return o
}

// or gives v, or the default in place of 0.
func or[T int | int64](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

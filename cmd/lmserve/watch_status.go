package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/serving/watch"
)

const (
	// lagFirst is the lag from which a stream is reported as late: the age of the oldest line that
	// waits to be scored.
	lagFirst = 3 * time.Second
	// lagLines is the interval between reports of a lag. On a terminal, each report replaces the
	// previous report.
	lagLines = 30 * time.Second
)

// lagStatus prints messages on standard error, in particular how many bytes of a stream wait to be
// scored.
type lagStatus struct {
	w        io.Writer
	terminal bool
	quiet    bool // lags are not reported

	mu    sync.Mutex
	drawn bool                 // the terminal shows a report that will be replaced
	told  map[string]time.Time // time of the last report for each lagging stream
}

func newLagStatus(c *cobra.Command) *lagStatus {
	quiet, _ := c.Flags().GetBool(quietName)
	w := c.ErrOrStderr()
	return &lagStatus{w: w, terminal: isTerminal(w), quiet: quiet, told: map[string]time.Time{}}
}

// behind reports a stream's lag, if it is long enough and was not reported recently.
func (s *lagStatus) behind(b watch.Behind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, said := s.told[b.Source]
	switch {
	case b.Bytes == 0 && said:
		delete(s.told, b.Source)
		s.clearLocked()
		fmt.Fprintf(s.w, "lmserve: %s: up to date\n", b.Source)
	case b.Bytes == 0 || b.Age < lagFirst || s.quiet:
	case s.terminal:
		s.told[b.Source] = time.Now()
		s.clearLocked()
		fmt.Fprintf(s.w, "lmserve: %s: %v", b.Source, b)
		s.drawn = true
	case time.Since(last) >= lagLines:
		s.told[b.Source] = time.Now()
		fmt.Fprintf(s.w, "lmserve: %s: %v\n", b.Source, b)
	}
}

func (s *lagStatus) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
	fmt.Fprintf(s.w, "lmserve: %s\n", text)
}

// end removes the last report of a lag from the terminal.
func (s *lagStatus) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
}

func (s *lagStatus) clearLocked() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
	s.drawn = false
}

// beside returns a writer to the same terminal. Each write first removes the report of a lag.
func (s *lagStatus) beside(w io.Writer) io.Writer {
	return writerFunc(func(text []byte) (int, error) {
		s.end()
		return w.Write(text)
	})
}

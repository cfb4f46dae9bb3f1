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
	// lagFirst is the age of a waiting line from which the stream's lag is reported.
	lagFirst = 3 * time.Second
	// lagLines is the interval between reports of a lag. On a terminal, each report replaces the
	// one before.
	lagLines = 30 * time.Second
)

// lagStatus reports on standard error how far streams lag, and other messages.
type lagStatus struct {
	w        io.Writer
	terminal bool
	quiet    bool // no reports of lags

	mu    sync.Mutex
	drawn bool                 // the terminal shows a replaceable line
	told  map[string]time.Time // time of the last report for each lagging stream
}

func newLagStatus(c *cobra.Command) *lagStatus {
	quiet, _ := c.Flags().GetBool(quietName)
	w := c.ErrOrStderr()
	return &lagStatus{w: w, terminal: isTerminal(w), quiet: quiet, told: map[string]time.Time{}}
}

// behind handles a stream's lag.
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

// end removes the replaceable line.
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

// beside returns a writer to the same terminal that clears the status before each write.
func (s *lagStatus) beside(w io.Writer) io.Writer {
	return writerFunc(func(text []byte) (int, error) {
		s.end()
		return w.Write(text)
	})
}

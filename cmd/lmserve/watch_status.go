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
	// lagFirst is the smallest lag that is reported. The lag of a stream is the age of the oldest
	// line that waits to be scored.
	lagFirst = 3 * time.Second
	// lagLines is the shortest time between two reports about one stream, if standard error is not
	// a terminal. On a terminal, each report replaces the previous report at once.
	lagLines = 30 * time.Second
)

// lagStatus prints messages on standard error, in particular how many bytes of a stream wait to be
// scored.
type lagStatus struct {
	w        io.Writer
	terminal bool
	quiet    bool

	mu    sync.Mutex
	drawn bool
	told  map[string]time.Time
}

func newLagStatus(c *cobra.Command) *lagStatus {
	quiet, _ := c.Flags().GetBool(quietName)
	w := c.ErrOrStderr()
	return &lagStatus{w: w, terminal: isTerminal(w), quiet: quiet, told: map[string]time.Time{}}
}

// behind prints a stream's lag, unless the lag is short or was reported recently. At the end of a
// reported lag, behind prints a message, too.
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

// beside returns a writer to w that first removes the lag report from the terminal.
func (s *lagStatus) beside(w io.Writer) io.Writer {
	return writerFunc(func(text []byte) (int, error) {
		s.end()
		return w.Write(text)
	})
}

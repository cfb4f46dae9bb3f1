package alert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/atomicfile"
)

const (
	stateVersion = 1
	// againAfter is the pause before a failed write of the file is retried.
	againAfter = time.Second
)

// state is the data from which a Notifier continues after a restart.
type state struct {
	Version int                `json:"version"`
	Open    []opened           `json:"open"`
	Waiting map[string][]Alert `json:"waiting"` // queues by Receiver.key
	Ended   map[string]bool    `json:"ended"`   // Notifier.again
}

// store keeps the state in a file, which one goroutine writes.
type store struct {
	file string // path of the file; if empty, nothing is kept
	note func(error)
	kept func() state
	done chan struct{}

	mu     sync.Mutex
	cond   *sync.Cond
	told   int64 // number of changes so far
	tried  int64 // number of changes that are written, or whose write has failed
	failed bool  // the last write has failed, and the failure was reported
	ended  bool
}

func newStore(file string, note func(error), kept func() state) *store {
	s := &store{file: file, note: note, kept: kept, done: make(chan struct{})}
	s.cond = sync.NewCond(&s.mu)
	return s
}

// read reads the file, and starts the goroutine that writes it.
func (s *store) read() (had state, err error) {
	if s.file == "" {
		close(s.done)
		return had, nil
	}
	text, err := os.ReadFile(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil:
		if err = json.Unmarshal(text, &had); err == nil && had.Version != stateVersion {
			err = fmt.Errorf("version is %d, expected %d", had.Version, stateVersion)
		}
	}
	if err != nil {
		return had, fmt.Errorf("alerts: %s: %w; open and queued alerts are unknown: delete the "+
			"file to start over", s.file, err)
	}
	go s.run()
	return had, nil
}

func (s *store) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told++
	s.cond.Broadcast()
}

// wait waits until the changes so far are written, or the write has failed.
func (s *store) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for until := s.told; s.file != "" && s.tried < until && !s.ended; {
		s.cond.Wait()
	}
}

func (s *store) close() {
	s.mu.Lock()
	s.ended = true
	s.cond.Broadcast()
	s.mu.Unlock()
	<-s.done
}

func (s *store) run() {
	defer close(s.done)
	for {
		s.mu.Lock()
		for s.tried == s.told && !s.failed && !s.ended {
			s.cond.Wait()
		}
		until, ended := s.told, s.ended
		unchanged := s.tried == s.told && !s.failed
		s.mu.Unlock()
		// A server that failed to start, because another server uses the folder, has changed
		// nothing. It must not overwrite the other server's file.
		if unchanged {
			return
		}
		err := s.write(s.kept())
		s.mu.Lock()
		again := s.failed
		s.tried, s.failed = until, err != nil
		s.cond.Broadcast()
		s.mu.Unlock()
		if err != nil && !again {
			s.note(fmt.Errorf("alerts: %w; retrying", err))
		}
		if ended {
			return
		}
		if err != nil {
			time.Sleep(againAfter)
		}
	}
}

func (s *store) write(what state) error {
	text, err := json.Marshal(what)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.file), 0o700)
	}
	if err != nil {
		return err
	}
	return atomicfile.Write(s.file, atomicfile.Options{Perm: 0o600}, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

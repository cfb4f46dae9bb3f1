package session

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
)

// Bounds and defaults of a SuggestRequest.
const (
	CandidatesDefault = 5
	OfferedMax        = 20
	SuggestWithinMax  = 10 * time.Second
)

// SuggestRequest asks what may come next.
type SuggestRequest struct {
	Typed  []byte  // text behind the session's, at most stream.TypedMax bytes
	N      int     // candidates, 1 to OfferedMax
	Unit   string  // where they end, a suggest.Unit; "" is suggest.Line
	Least  float64 // the least probability of a candidate, 0 to 1
	Within time.Duration
	Wait   time.Duration // as in ScoreOptions
}

// Suggested is what may come next.
type Suggested struct {
	Offset     int64 // of the session
	Candidates []suggest.Candidate
	Rows       int // prefixes that the network has read for it
}

func checkSuggest(s *session, r SuggestRequest) error {
	switch {
	case len(r.Typed) > stream.TypedMax:
		return &FieldError{"typed", setting.Count(len(r.Typed), "byte"),
			fmt.Sprintf("at most %d", stream.TypedMax)}
	case r.N < 1 || r.N > OfferedMax:
		return &FieldError{"n", strconv.Itoa(r.N), fmt.Sprintf("1 to %d", OfferedMax)}
	case !(r.Least >= 0 && r.Least <= 1):
		return &FieldError{"min_probability", strconv.FormatFloat(r.Least, 'g', -1, 64), "0 to 1"}
	case r.Within < 0 || r.Within > SuggestWithinMax:
		return &FieldError{"within_ms", strconv.FormatInt(r.Within.Milliseconds(), 10),
			fmt.Sprintf("0 to %d", SuggestWithinMax.Milliseconds())}
	case s.model.OfWords():
		return &FieldError{"model", s.model.Name + ", a model of words", "a model of bytes"}
	case s.Settings.Method == MethodCache:
		return &FieldError{"settings.method", MethodCache, "another method, for suggestions"}
	}
	switch suggest.Unit(r.Unit) {
	case "", suggest.Word, suggest.WordPlus, suggest.Line, suggest.Free:
		return nil
	}
	return &FieldError{"unit", strconv.Quote(r.Unit),
		fmt.Sprintf("%s, %s, %s or %s", suggest.Word, suggest.WordPlus, suggest.Line, suggest.Free)}
}

// suggest looks for what may come next. The session's stream stays as it is.
func (e *engine) suggest(
	ctx context.Context, s *session, r SuggestRequest,
) (found Suggested, err error) {
	begun, admitted := time.Now(), false
	open := func() error { return s.openCurrent(ctx, e.maxWaitOf(r.Wait)) }
	if err := e.waiting.wait(s.Owner, &admitted, open); err != nil {
		return found, err
	}
	defer s.unlock()
	l, err := e.leaseLocked(ctx, s, &admitted)
	if err != nil {
		return found, err
	}
	defer l.Release()
	if err := s.alive(); err != nil {
		return found, err
	}
	o := suggest.Options{N: r.N, Unit: cmp.Or(suggest.Unit(r.Unit), suggest.Line), Least: r.Least}
	if r.Within > 0 {
		o.Within = max(1, r.Within-time.Since(begun))
	}
	searching := time.Now()
	what, err := l.Worker().Suggest(ctx, s.stream, s.suggesterLocked(), r.Typed, o)
	phaseSince(ctx, e.observer, PhaseSample, searching)
	s.chargeSuggesterLocked()
	return Suggested{Offset: s.stream.Offset(), Candidates: what.Candidates, Rows: what.Rows}, err
}

// suggesterLocked is what suggestions have computed for the session's stream.
func (s *session) suggesterLocked() *stream.Suggester {
	if s.suggester == nil {
		s.suggester = new(stream.Suggester)
	}
	return s.suggester
}

// chargeSuggesterLocked counts the suggester's memory. Where there is no room, it is dropped: the
// next suggestion computes again what it had.
func (s *session) chargeSuggesterLocked() {
	bytes := s.suggester.Bytes()
	if more := bytes - s.suggesterBytes; s.memory.Charge(max(0, more)) == nil {
		s.suggesterBytes = bytes
		return
	}
	s.dropSuggesterLocked()
}

func (s *session) dropSuggesterLocked() {
	s.memory.Refund(s.suggesterBytes)
	s.suggester, s.suggesterBytes = nil, 0
}

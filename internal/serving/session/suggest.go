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

// Limits and defaults of a SuggestRequest.
const (
	CandidatesDefault = 5
	OfferedMax        = 20
	SuggestWithinMax  = 10 * time.Second
	RefusedMax        = 100
)

// SuggestRequest asks for likely continuations.
type SuggestRequest struct {
	Typed   []byte        // text typed after the session's text, at most stream.TypedMax bytes
	Suffix  []byte        // text after the candidates, used to rank them; may be empty
	N       int           // number of candidates, 1 to OfferedMax
	Unit    string        // where candidates end, as a suggest.Unit; "" means suggest.Line
	Least   float64       // minimum probability of a candidate, 0 to 1
	Within  time.Duration // limit on the search time without waits; 0 means no limit
	Refused []string      // suggestions that the user has declined, at most RefusedMax
	Wait    time.Duration
}

// Suggested has likely continuations.
type Suggested struct {
	Offset     int64
	Candidates []suggest.Candidate
	Complete   bool // false if Within or a full queue has cut the search short
	Rows       int  // number of prefixes that the network has computed; also set on an error
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
	case len(r.Refused) > RefusedMax:
		return &FieldError{"refused", setting.Count(len(r.Refused), "text"),
			fmt.Sprintf("at most %d", RefusedMax)}
	case s.model.OfWords():
		return &FieldError{"model", s.model.Name + ", a model of words", "a model of bytes"}
	case s.Settings.Method == MethodCache:
		return &FieldError{"settings.method", MethodCache, "another method for suggestions"}
	}
	switch suggest.Unit(r.Unit) {
	case "", suggest.Word, suggest.WordPlus, suggest.Line, suggest.Free, suggest.Auto:
		return nil
	}
	return &FieldError{"unit", strconv.Quote(r.Unit), fmt.Sprintf("%s, %s, %s, %s or %s",
		suggest.Word, suggest.WordPlus, suggest.Line, suggest.Free, suggest.Auto)}
}

// options returns the options of the search. If the server is busy, the search is short.
func (r SuggestRequest) options(busy bool) suggest.Options {
	return suggest.Options{
		N: r.N, Unit: cmp.Or(suggest.Unit(r.Unit), suggest.Line), Least: r.Least, Within: r.Within,
		Refused: r.Refused, Quick: busy,
	}
}

func (e *engine) suggest(
	ctx context.Context, s *session, r SuggestRequest,
) (found Suggested, err error) {
	admitted := false
	if err := e.openCurrent(ctx, s, &admitted, e.maxWaitOf(r.Wait)); err != nil {
		return found, err
	}
	defer s.unlock()
	if s.suggester == nil {
		s.suggester = new(stream.Suggester)
	}
	what, err := e.searchLocked(ctx, s, r, &admitted)
	s.keepSuggesterLocked()
	found.Rows = what.Rows
	if err == nil {
		err = s.stillHolds()
	}
	if err != nil {
		return found, err
	}
	found.Offset, found.Candidates, found.Complete = s.stream.Offset(), what.Candidates,
		what.Complete
	return found, nil
}

func (e *engine) searchLocked(
	ctx context.Context, s *session, r SuggestRequest, admitted *bool,
) (what suggest.Found, err error) {
	l, err := e.leaseLocked(ctx, s, admitted)
	if err != nil {
		return what, err
	}
	defer l.Release()
	if err := s.alive(); err != nil {
		return what, err
	}
	searching, options := time.Now(), r.options(e.scheduler.Busy())
	if len(r.Suffix) > 0 {
		options.N = max(options.N, fillCandidates)
	}
	what, err = l.Worker().Suggest(ctx, s.stream, s.suggester, r.Typed, options)
	if len(r.Suffix) > 0 && err == nil {
		var rows int
		rows, err = rankBefore(ctx, l.Worker(), s.stream, s.suggester, r.Typed, r.Suffix,
			what.Candidates)
		what.Rows += rows
		what.Candidates = what.Candidates[:min(r.N, len(what.Candidates))]
	}
	phaseSince(ctx, e.observer, PhaseSample, searching)
	return what, err
}

// keepSuggesterLocked charges the suggester to the memory of the state, and both are dropped
// together. If the memory does not suffice, it drops the suggester, and the next suggestion
// computes it again. It also drops the suggester if the store is in memory. States then stay in
// memory, so the memory of suggesters could never be freed for text.
func (s *session) keepSuggesterLocked() {
	if !s.host.store.Durable() {
		s.suggester = nil
		return
	}
	bytes := s.suggester.Bytes()
	if more := bytes - s.suggesterBytes; more <= 0 {
		s.memory.Return(-more)
	} else if changed, err := s.memory.Try(more); changed != nil || err != nil {
		s.memory.Return(s.suggesterBytes)
		s.suggester, bytes = nil, 0
	}
	s.suggesterBytes = bytes
}

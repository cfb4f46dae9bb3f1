package session

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Observer gets the events of a Manager, for metrics and traces. Methods may be called
// concurrently. They must return soon, and must not call the Manager.
type Observer interface {
	// Phase is called when a phase of a request has ended. ctx is the context of the request.
	Phase(ctx context.Context, p Phase, began, ended time.Time)
	// Scored reports a text that was scored, its model (ModelInfo.ID), and whether it is learned:
	// LearnTrue, LearnFalse or LearnUnflagged.
	Scored(model, learn string, t Tally)
	// Line reports a line that has ended in a text whose caller asked for lines, and the session's
	// method. Neither Line nor Scored reports text that a fork or a shadow copies from another
	// session.
	Line(method string, l *Line)
	// Incident reports an incident that a line opens, closes or updates, whether or not a caller
	// asks for lines. The line has its text. Text that a fork or a shadow copies is not reported.
	Incident(of SessionRef, l *Line, i *IncidentReport)
	// Incidents reports all incidents that a session remembers, the newest first, when its state is
	// in memory again. It reports an empty list when the session is deleted.
	Incidents(of SessionRef, all []IncidentReport)
	// Left reports the id of a session that another server may have now.
	Left(session string)
	// Compared reports the totals that a piece of text has added to a session and to its shadow.
	Compared(followed, shadow Tally)
	// Completed reports why a completion ended, and its number of sampled tokens.
	Completed(reason string, tokens int)
	// Snapshot reports how long the writing of a state took, and its error or nil.
	Snapshot(took time.Duration, err error)
	// Replayed reports text of the log that was recomputed to recover a state.
	Replayed(bytes int64)
	// Loaded reports how long the loading of a model's weights took, and its error or nil. Dropped
	// reports weights that are no longer in memory. The model is ModelInfo.ID.
	Loaded(model string, took time.Duration, err error)
	Dropped(model string)
	// Claimed reports a claim of a session in the store. taken says that the session belonged to a
	// server whose lease had lapsed.
	Claimed(taken bool)
	// Fenced reports that the store refused a write, or that the outcome of a write is unknown. The
	// session in memory is dropped.
	Fenced()
}

// Phase is a part of the work on a request. A request that scores first waits for its turn. Then
// each chunk goes through the phases from PhaseOpen on; only a full chunk has the last three.
// PhaseBackward runs during PhaseCommit if the chunk needs a single gradient.
type Phase int

// The phases, in the order of a request.
const (
	PhaseTurn     Phase = iota // waiting for other requests that feed the session
	PhaseOpen                  // waiting for the session's state, and for memory
	PhaseRecover               // recovering the state of a cold session
	PhaseQueue                 // waiting for a worker
	PhaseForward               // scoring the text
	PhaseCommit                // making the text durable
	PhaseReport                // reporting to the caller
	PhaseBackward              // computing the gradient of the chunk's loss
	PhaseUpdate                // updating the fast weights
	PhaseRemember              // updating the memory of hidden states
	PhaseSample                // sampling for a completion, or reading its prompt
	Phases                     // the number of phases
)

// String returns the name of a phase for metrics and traces.
func (p Phase) String() string {
	return [Phases]string{
		"turn", "open", "recover", "queue", "forward", "commit", "report",
		"backward", "update", "remember", "sample",
	}[p]
}

// phaseSince reports a phase that ends now to an observer, and returns the time.
func phaseSince(ctx context.Context, o Observer, p Phase, began time.Time) (now time.Time) {
	now = time.Now()
	o.Phase(ctx, p, began, now)
	return now
}

// tellSettled reports the phases at the end of a full chunk. If no chunk was full, it reports
// nothing.
func tellSettled(ctx context.Context, o Observer, at stream.Settled) {
	from := at.Begun
	for _, part := range []struct {
		phase Phase
		ended time.Time
	}{
		{PhaseBackward, at.Backward}, {PhaseUpdate, at.Update}, {PhaseRemember, at.Remember},
	} {
		if !part.ended.IsZero() {
			o.Phase(ctx, part.phase, from, part.ended)
			from = part.ended
		}
	}
}

// unobserved is the Observer of a Manager that has none.
type unobserved struct{}

func (unobserved) Phase(context.Context, Phase, time.Time, time.Time) {}
func (unobserved) Scored(string, string, Tally)                       {}
func (unobserved) Line(string, *Line)                                 {}
func (unobserved) Incident(SessionRef, *Line, *IncidentReport)        {}
func (unobserved) Incidents(SessionRef, []IncidentReport)             {}
func (unobserved) Left(string)                                        {}
func (unobserved) Compared(Tally, Tally)                              {}
func (unobserved) Completed(string, int)                              {}
func (unobserved) Snapshot(time.Duration, error)                      {}
func (unobserved) Replayed(int64)                                     {}
func (unobserved) Loaded(string, time.Duration, error)                {}
func (unobserved) Dropped(string)                                     {}
func (unobserved) Claimed(bool)                                       {}
func (unobserved) Fenced()                                            {}

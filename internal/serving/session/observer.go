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
	// Scored is called for each scored text. Parameter model is the model's ModelInfo.ID. Parameter
	// learn is LearnTrue, LearnFalse or LearnUnflagged.
	Scored(model, learn string, t Tally)
	// Line is called when a line has ended in a request that asks for lines. Parameter method is
	// the session's method. Neither Line nor Scored is called for text that a fork or a shadow
	// copies from another session.
	Line(method string, l *Line)
	// Incident is called when a line opens, closes or updates an incident, even if no request asks
	// for lines. The field Text of the line is set. Incident is not called for text that a fork or
	// a shadow copies.
	Incident(of SessionRef, l *Line, i *IncidentReport)
	// Incidents is called with the latest incidents of a session, newest first, when its state is
	// loaded into memory. When the session is deleted, the list is empty.
	Incidents(of SessionRef, all []IncidentReport)
	// Left is called with the id of a session that another server may have claimed.
	Left(session string)
	// Compared is called with the totals of the same piece of text in a session and in its shadow.
	Compared(followed, shadow Tally)
	// Completed is called when a completion ends, with the reason and the number of sampled tokens.
	Completed(reason string, tokens int)
	// Snapshot is called when a snapshot was written or could not be written.
	Snapshot(took time.Duration, err error)
	// Replayed is called with the number of bytes that were recomputed to recover a state.
	Replayed(bytes int64)
	// Loaded is called when a model's weights were loaded or could not be loaded. Dropped is called
	// when they are removed from memory. Parameter model is the ModelInfo.ID.
	Loaded(model string, took time.Duration, err error)
	Dropped(model string)
	// Claimed is called when this server has claimed a session in the store. Parameter taken is
	// true if the session belonged to a server whose lease had lapsed.
	Claimed(taken bool)
	// Fenced is called when the store refused a write, or when the outcome of a write is unknown.
	// The session's state is then dropped from memory.
	Fenced()
}

// Phase is a step in the work on a request. A request that scores first waits for its turn
// (PhaseTurn). After that, each chunk goes through the steps from PhaseOpen to PhaseReport. A full
// chunk then also goes through PhaseBackward, PhaseUpdate and PhaseRemember. If the chunk needs
// only one gradient, PhaseBackward runs during PhaseCommit.
type Phase int

// These are the phases, in the order in which a request goes through them.
const (
	PhaseTurn     Phase = iota // waiting for other requests that feed the session
	PhaseOpen                  // waiting for the session's state and for memory
	PhaseRecover               // recovering a state that is not in memory
	PhaseQueue                 // waiting for a worker
	PhaseForward               // scoring the text
	PhaseCommit                // writing the text to the log
	PhaseReport                // reporting to the caller
	PhaseBackward              // computing the gradient of the chunk's loss
	PhaseUpdate
	PhaseRemember // updating the memory of hidden states
	PhaseSample   // sampling for a completion, or reading its prompt
	Phases        // number of phases
)

// String returns the name of a phase for metrics and traces.
func (p Phase) String() string {
	return [Phases]string{
		"turn", "open", "recover", "queue", "forward", "commit", "report",
		"backward", "update", "remember", "sample",
	}[p]
}

func phaseSince(ctx context.Context, o Observer, p Phase, began time.Time) (now time.Time) {
	now = time.Now()
	o.Phase(ctx, p, began, now)
	return now
}

// tellSettled reports the phases at the end of a full chunk. It reports nothing if parameter `at`
// is the zero value, which means that no chunk was full.
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

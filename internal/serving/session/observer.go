package session

import (
	"context"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Observer is told what a Manager does, as it does it: for metrics and traces. Its methods may be
// called at once, and at any time; they must return soon, and must not call the Manager.
type Observer interface {
	// Phase is told of a part of a request's work that has ended. The context is the request's.
	Phase(ctx context.Context, p Phase, began, ended time.Time)
	// Scored is told of a text that was scored, of the model (ModelInfo.ID), and of what is learnt
	// of the text: LearnTrue, LearnFalse or LearnUnflagged.
	Scored(model, learn string, t Tally)
	// Line is told of a line that has ended in a text whose caller has asked for lines, and of the
	// method of the session. Of text that a fork or a shadow takes over from another session it is
	// not told again, nor is Scored.
	Line(method string, l *Line)
	// Incident gets each incident that a line opens or closes, or that a line has news of, whether
	// anybody asks for lines or not. The line has its text. Text that a fork or a shadow takes over
	// has none.
	Incident(of SessionRef, l *Line, i *IncidentReport)
	// Incidents gets all incidents that a session remembers, the newest first, when its state is in
	// memory again or a verdict was given; and an empty list when the session is deleted.
	Incidents(of SessionRef, all []IncidentReport)
	// Left gets the id of a session that another server may have now.
	Left(session string)
	// Compared is told of the totals that a piece of text has added to those of a session, and to
	// those of a shadow of it.
	Compared(followed, shadow Tally)
	// Completed is told of a text that was sampled to its end, and of how many tokens.
	Completed(reason string, tokens int)
	// Snapshot is told how long the writing of a state took, and why it failed, if it has.
	Snapshot(took time.Duration, err error)
	// Replayed is told of text of the log that was computed again, to recover a state.
	Replayed(bytes int64)
	// Loaded is told how long the loading of a model's weights took, and why it failed, if it has;
	// and Dropped of weights that are no longer in memory. The model is ModelInfo.ID.
	Loaded(model string, took time.Duration, err error)
	Dropped(model string)
	// Claimed is told that a session of the store was claimed, and whether it was taken over from a
	// server whose lease was over.
	Claimed(taken bool)
	// Fenced is told that the store has refused a write, or that nobody knows of one whether it was
	// made: what was in memory of the session is dropped.
	Fenced()
}

// Phase is a part of the work on a request. A request that scores takes a turn; then each chunk
// goes through the phases from PhaseOpen on, the last three of them when it is full. PhaseBackward
// is during PhaseCommit where the chunk needs no more than the one gradient.
type Phase int

// The phases, in the order in which a request meets them.
const (
	PhaseTurn     Phase = iota // others that feed the session are waited for
	PhaseOpen                  // the session's state, and memory for it, are waited for
	PhaseRecover               // the state of a cold session is made again
	PhaseQueue                 // a worker is waited for
	PhaseForward               // the text is scored
	PhaseCommit                // the text is made durable
	PhaseReport                // the caller is told, and takes what it is told
	PhaseBackward              // the gradient of the chunk's loss
	PhaseUpdate                // the fast weights
	PhaseRemember              // the memory of the hidden states
	PhaseSample                // a worker samples for a completion, or reads its prompt
	Phases                     // the number of phases
)

// String is the name of a phase, for metrics and traces.
func (p Phase) String() string {
	return [Phases]string{
		"turn", "open", "recover", "queue", "forward", "commit", "report",
		"backward", "update", "remember", "sample",
	}[p]
}

// phaseSince tells an observer of a phase that ends now, and gives the time.
func phaseSince(ctx context.Context, o Observer, p Phase, began time.Time) (now time.Time) {
	now = time.Now()
	o.Phase(ctx, p, began, now)
	return now
}

// tellSettled tells an observer of the phases that ended a chunk; of none, if none was full.
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

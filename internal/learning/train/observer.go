package train

import "time"

// Observer gets the events of a run, in the order that Event describes, from one goroutine. An
// error of Observe ends the run.
type Observer interface {
	Observe(Event) error
}

// Event is an event of a run. The events have this order:
//
//	Opened   once, after the run has found everything that it needs
//	Planned  once for each remaining phase
//	Ready    once
//	Begun    once for each phase; then Stepped and Validated, repeatedly; then Ended
//	Finished last, also after an error
//
// Noted may come at any time, even before Opened.
type Event interface{ event() }

// Opened describes the run. Nothing has been written yet.
type Opened struct {
	Name   string
	Unit   Unit
	Phases []string
	// Fields has the recipe by JSON names. The recipe is everything that determines the run's
	// results. Numbers are json.Number.
	Fields map[string]any
	Dir    string // folder of the checkpoints; "" if there is none
	Store  string

	Numerics string // the arithmetic; see kernel.Arithmetic.Numerics
}

// Noted is a sentence for people.
type Noted struct{ Text string }

// Planned says what a remaining phase will do.
type Planned struct {
	Phase       string
	Description string
	Steps, Made int
	// Estimate makes a few trial steps, and returns the time for the rest of the phase. The trial
	// steps change nothing. Only Observe may call Estimate. Observe must return Estimate's error.
	Estimate func() (time.Duration, error)
}

// Ready says that all phases have been planned: the run begins.
type Ready struct{}

// Standing is the progress of a phase.
type Standing struct {
	Phase       string
	Step, Steps int   // optimizer steps made, and steps of the whole phase
	Tokens      int64 // tokens scored for training in the phase
	Loss        float64
}

// Begun says that a phase begins, or that it continues after an interruption.
type Begun struct{ Standing }

// Stepped reports an optimizer step. Standing.Loss is a running mean.
type Stepped struct {
	Standing
	Outcome Outcome
}

// Validated has a measurement on the validation text.
type Validated struct {
	Standing
	Measurement Measurement
	Best        bool
	Took        time.Duration
}

// Ended says that the phase makes no more steps. With ValidationOptions.Patience, a phase may end
// before its last step.
type Ended struct {
	Standing
	Stale int   // number of validations since the best validation
	Err   error // why the phase was stopped; nil if it was completed
}

// Finished has the results of the run and how it ended.
type Finished struct {
	Report Report
	Err    error // why the run failed; nil if it was completed
}

func (Opened) event()    {}
func (Noted) event()     {}
func (Planned) event()   {}
func (Ready) event()     {}
func (Begun) event()     {}
func (Stepped) event()   {}
func (Validated) event() {}
func (Ended) event()     {}
func (Finished) event()  {}

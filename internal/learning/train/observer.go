package train

import "time"

// Observer is told what happens in a run, event by event, in the order of Event and from one
// goroutine. An error that it returns ends the run.
type Observer interface {
	Observe(Event) error
}

// Event is something that has happened in a run: one of
//
//	Opened              once, when everything that the run needs has been found
//	Noted               now and then, also before Opened
//	Planned, ..., Ready what is left to do
//	Begun, Stepped and Validated as often as it happens, Ended: for each phase
//	Finished            after Opened in any case, last
type Event interface{ event() }

// Opened says what the run is. Nothing has been written yet.
type Opened struct {
	Name   string // name of the model
	Unit   Unit   // of losses and measurements
	Phases []string
	// Fields are those of the recipe, all that the run's bits depend on, under their JSON names;
	// numbers are json.Number.
	Fields map[string]any
	Dir    string // folder of the checkpoints; "" if there is none
	Store  string // type of the slow weights in the model's file

	Numerics string // the arithmetic, see kernel.Arithmetic.Numerics
}

// Noted is a sentence for a person.
type Noted struct{ Text string }

// Planned says what a phase will do, of those that are left.
type Planned struct {
	Phase       string
	Description string // a sentence for a person
	Steps, Made int
	// Estimate tries a few steps and returns the time that the rest of the phase will take. It may
	// be called while the event is observed, and changes nothing. An error of it is the run's.
	Estimate func() (time.Duration, error)
}

// Ready says that all phases have been planned: the run begins.
type Ready struct{}

// Standing is where a phase stands.
type Standing struct {
	Phase       string
	Step, Steps int   // optimiser steps made, and in all
	Tokens      int64 // tokens scored for training in the phase
	Loss        float64
}

// Begun says that a phase begins, or goes on after the steps that an earlier sitting has made.
type Begun struct{ Standing }

// Stepped says that a step has been made; Loss of the standing is a running mean.
type Stepped struct {
	Standing
	Outcome Outcome
}

// Validated says what was measured on the validation text.
type Validated struct {
	Standing
	Measurement Measurement
	Best        bool // the best measurement so far in the phase
	Took        time.Duration
}

// Ended says that no more steps are made in the phase, before its last one if the patience has run
// out.
type Ended struct {
	Standing
	Stale int   // validations since the best one
	Err   error // why the phase was broken off; nil if it came to its end
}

// Finished says what the run has done and how it ended.
type Finished struct {
	Report Report
	Err    error // why the run failed; nil if it came to its end
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

package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	bitsPerNat = 1 / math.Ln2
	// lossMemory is the weight of one step in the running mean of the training loss.
	lossMemory = 0.02
	// validationsDefault is the number of validations of a phase where no interval is given.
	validationsDefault = 10
)

// position is where a run stands, with everything the loop has to remember.
type position struct {
	Phase     string        `json:"phase"`
	Step      int           `json:"step"`      // optimiser steps made in the phase
	Tokens    int64         `json:"tokens"`    // scored in the phase
	Loss      float64       `json:"loss"`      // running mean, nats a token
	Validated int           `json:"validated"` // step of the last validation; -1: none in the phase yet
	Stale     int           `json:"stale"`     // validations since the best one
	Best      *Validation   `json:"best,omitempty"`
	Done      []PhaseReport `json:"done,omitempty"` // phases that ended
}

// interval is what has happened since the last line of metrics.
type interval struct {
	started time.Time
	steps   int
	tokens  int64
	loss    float64 // sum over the steps
}

// loop makes the steps of a phase that are left. Between two steps, in this order: validation, checkpoint, interruption.
func (r *run) loop(ctx context.Context, p phase) error {
	show := newProgress(r.o.Progress, r.at.Phase, r.at.Step, p.length())
	defer func() { show.end(r.at.Step) }()
	event, words := eventStart, r.at.Phase+" begins"
	if r.at.Step > 0 {
		event, words = eventResume, fmt.Sprintf("%s goes on after step %d", r.at.Phase, r.at.Step)
	}
	show.note("%s", words)
	if err := r.metrics.write(r.line(event)); err != nil {
		return err
	}
	var static *float64 // validation of slow weights that stand still
	r.saved, r.bestSaved = r.at.Step, -1
	since := interval{started: time.Now()}
	for {
		if r.validationDue(p) {
			began := time.Now()
			v, best, err := r.validate(ctx, p, static)
			if ctx.Err() != nil {
				return r.interrupt(ctx, p)
			}
			if err != nil {
				return err
			}
			if p.frozen() {
				static = &v.Static
			}
			mark := ""
			if best {
				mark = "  (best)"
			}
			show.note("%s step %d  %s%s", r.at.Phase, r.at.Step, v, mark)
			since.started = since.started.Add(time.Since(began)) // the speed is that of training
		}
		end := r.at.Step == p.length() || r.outOfPatience()
		due := end || r.at.Step%r.o.CheckpointEvery == 0
		if r.bestUnsaved() || due && r.at.Step != r.saved {
			if err := r.checkpoint(p); err != nil {
				return err
			}
		}
		if end && r.at.Step < p.length() {
			show.note("%s ends at step %d of %d: %d validations without a better one", r.at.Phase, r.at.Step, p.length(), r.at.Stale)
		}
		if end {
			return r.metrics.write(r.line(eventEnd))
		}
		if ctx.Err() != nil {
			return r.interrupt(ctx, p)
		}
		if err := r.stepOnce(p, &since, show); err != nil {
			return err
		}
	}
}

// stepOnce makes a step and accounts for it.
func (r *run) stepOnce(p phase, since *interval, show *progress) error {
	out, err := p.step()
	if err != nil {
		return fmt.Errorf("train: phase %s, step %d: %w", r.at.Phase, r.at.Step, err)
	}
	if !out.finite() {
		return fmt.Errorf("%w: phase %s, step %d: loss %v, gradient norm %v: try a lower learning rate, a longer warm-up or stronger clipping%s",
			ErrDiverged, r.at.Phase, r.at.Step, out.loss, out.norm, r.lastCheckpoint())
	}
	if r.at.Step == 0 {
		r.at.Loss = out.loss
	}
	r.at.Loss += lossMemory * (out.loss - r.at.Loss)
	r.at.Step++
	r.at.Tokens += int64(out.tokens)
	since.steps++
	since.tokens += int64(out.tokens)
	since.loss += out.loss
	now := time.Now()
	if show.due(now) {
		show.show(now, r.at.Step, r.at.Loss, float64(since.tokens)/now.Sub(since.started).Seconds())
	}
	if r.at.Step%r.o.LogEvery != 0 {
		return nil
	}
	m := r.line(eventStep)
	m.Loss = since.loss / float64(since.steps)
	m.BPC = m.Loss * bitsPerNat
	m.Rate, m.SlowRate, m.GradNorm = out.rate, out.slowRate, out.norm
	m.TokensPerSec = float64(since.tokens) / now.Sub(since.started).Seconds()
	*since = interval{started: now}
	return r.metrics.write(m)
}

// lastCheckpoint tells what is left of a run that went wrong.
func (r *run) lastCheckpoint() string {
	if r.o.Dir == "" || r.saved == 0 {
		return ""
	}
	return fmt.Sprintf("; %s has step %d", r.file(lastName), r.saved)
}

func (r *run) line(event string) Metric {
	return Metric{Event: event, Phase: r.at.Phase, Step: r.at.Step, Tokens: r.at.Tokens}
}

func (r *run) validationDue(p phase) bool {
	switch {
	case r.valid == nil || r.at.Validated == r.at.Step:
		return false
	case r.at.Step == p.length():
		return true
	case r.at.Step == 0: // what is trained already may be the best that comes
		return r.o.Validation.Every >= 0 && (r.o.Init != "" || len(r.at.Done) > 0)
	}
	return r.at.Step%r.validationEvery(p) == 0
}

// validationEvery is the number of steps of a phase between two validations.
func (r *run) validationEvery(p phase) int {
	switch every := r.o.Validation.Every; {
	case every > 0:
		return every
	case every < 0:
		return p.length()
	}
	return (p.length() + validationsDefault - 1) / validationsDefault
}

// outOfPatience tells whether the phase has gone on for too long without a better validation.
func (r *run) outOfPatience() bool {
	patience := r.o.Validation.Patience
	return patience > 0 && r.at.Stale >= patience
}

// validate measures the weights as they are and, if they are the best so far, keeps a copy.
func (r *run) validate(ctx context.Context, p phase, static *float64) (v Validation, best bool, err error) {
	m, err := r.model(p.learner())
	if err != nil {
		return v, false, err
	}
	if v, err = r.valid.measure(ctx, m, static); err != nil {
		return v, false, err
	}
	v.Step = r.at.Step
	r.at.Validated = r.at.Step
	best = r.at.Best == nil || v.score() < r.at.Best.score()
	r.at.Stale++
	if best {
		r.at.Best, r.at.Stale = &v, 0
		r.keepBest(p)
	}
	line := r.line(eventValid)
	line.Static, line.Best = v.Static, best
	if v.Adaptive != nil {
		line.Adaptive = *v.Adaptive
	}
	return v, best, r.metrics.write(line)
}

func (r *run) keepBest(p phase) {
	r.best = r.best[:0]
	for _, a := range p.trained() {
		r.best = append(r.best, array{a.name, slices.Clone(a.data)})
	}
}

// bestUnsaved tells whether the weights as they are have validated best and are not in the best checkpoint yet.
func (r *run) bestUnsaved() bool {
	return r.at.Best != nil && r.at.Best.Step == r.at.Step && r.bestSaved != r.at.Step
}

// checkpoint writes the state of the run as the last checkpoint and, if it is the best, as that of the phase. In this order: a run that is
// killed in between finds the best weights in the last checkpoint.
func (r *run) checkpoint(p phase) error {
	if r.o.Dir == "" {
		r.saved, r.bestSaved = r.at.Step, r.at.Step
		return nil
	}
	s := newSnapshot()
	s.putJSON(keyRun, r.record)
	s.putJSON(keyPosition, r.at)
	s.file.Metadata[keyNumerics] = r.base.Arithmetic.Numerics()
	p.save(s)
	if err := r.writeSnapshot(s, r.file(lastName)); err != nil {
		return err
	}
	r.saved = r.at.Step
	if !r.bestUnsaved() {
		return nil
	}
	if err := r.writeSnapshot(s, r.file(bestName(r.at.Phase))); err != nil {
		return err
	}
	r.bestSaved = r.at.Step
	return nil
}

// interrupt saves the run and makes the error that says so.
func (r *run) interrupt(ctx context.Context, p phase) error {
	e := r.interrupted(ctx, r.at.Phase, r.at.Step)
	if err := r.checkpoint(p); err != nil {
		return fmt.Errorf("train: interrupted in phase %s after step %d, which could not be saved: %w", e.Phase, e.Step, err)
	}
	return e
}

// interrupted is the error of a run that stopped after a step that is in the last checkpoint, if there are checkpoints.
func (r *run) interrupted(ctx context.Context, phase string, step int) *InterruptedError {
	e := &InterruptedError{Phase: phase, Step: step, Cause: context.Cause(ctx)}
	if r.o.Dir != "" {
		e.Checkpoint = r.file(lastName)
	}
	return e
}

// resume puts a phase where the last checkpoint was written.
func (r *run) resume(p phase, last *snapshot) error {
	if r.at.Step < 0 || r.at.Step > p.length() {
		return fmt.Errorf("%w %s: step %d, expected 0 to %d", ErrCheckpoint, last.path, r.at.Step, p.length())
	}
	if err := p.load(last); err != nil {
		return err
	}
	if have := last.file.Metadata[keyNumerics]; have != r.base.Arithmetic.Numerics() {
		r.note("the checkpoint was written under the arithmetic %q, this machine's is %q: results will differ by rounding", have, r.base.Arithmetic.Numerics())
	}
	if r.at.Best == nil {
		return nil
	}
	best := last
	if r.at.Best.Step != r.at.Step {
		var err error
		if best, err = readSnapshot(r.file(bestName(r.at.Phase)), r.record); err != nil {
			return err
		}
		var at position
		best.getJSON(keyPosition, &at)
		if best.err == nil && (at.Phase != r.at.Phase || at.Step != r.at.Best.Step) {
			best.fail("it is of phase %s, step %d, expected %s, step %d (the best so far)", at.Phase, at.Step, r.at.Phase, r.at.Best.Step)
		}
	}
	r.keepBest(p)
	for _, a := range r.best {
		best.get(a.name, a.data)
	}
	return best.err
}

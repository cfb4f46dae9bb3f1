package report

import (
	"time"

	"github.com/lmserve/lmserve/internal/learning/train"
)

// pace is what has happened in the steps since the last line of metrics.
type pace struct {
	every   int // steps between two lines
	started time.Time
	steps   int
	tokens  int64
	loss    float64 // sum of the losses of the steps
}

// start makes the pace empty at the time now.
func (p *pace) start(now time.Time) { *p = pace{every: p.every, started: now} }

// add adds a step and tells whether a line of metrics is due behind it.
func (p *pace) add(s train.Stepped) (due bool) {
	p.steps++
	p.tokens += int64(s.Outcome.Tokens)
	p.loss += s.Outcome.Loss
	return s.Step%p.every == 0
}

// pause leaves out a time in which no step was made, so that the speed is that of training.
func (p *pace) pause(took time.Duration) { p.started = p.started.Add(took) }

// meanLoss is the mean loss of the steps, in nats a token.
func (p *pace) meanLoss() float64 { return p.loss / float64(p.steps) }

// tokensPerSec is the speed up to now.
func (p *pace) tokensPerSec(now time.Time) float64 {
	return float64(p.tokens) / now.Sub(p.started).Seconds()
}

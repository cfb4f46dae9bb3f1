package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/lmserve/lmserve/internal/learning/train"
)

const (
	eventStart  = "start"
	eventResume = "resume"
	eventStep   = "step"
	eventValid  = "valid"
	eventEnd    = "end"
)

// Metric is one line of the metrics file. Fields that do not apply are left out.
type Metric struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`
	Phase string    `json:"phase"`
	Step  int       `json:"step"`

	// Tokens is the number of tokens scored for training in the phase so far.
	Tokens int64 `json:"tokens"`
	// Loss is in nats per token, the mean over the steps since the previous line.
	Loss float64 `json:"loss,omitempty"`
	Bits float64 `json:"bits_per_token,omitempty"` // Loss in bits per token
	// Perplexity is 2 to the power of Bits, for a model of words.
	Perplexity float64 `json:"perplexity,omitempty"`
	// Rate is the learning rate of the last step. In pretraining it belongs to the slow weights, in
	// other phases to the meta-learners.
	Rate float64 `json:"lr,omitempty"`
	// SlowRate is the learning rate of the slow weights in train.PhaseJoint.
	SlowRate float64 `json:"slow_lr,omitempty"`
	// GradNorm is the norm of the last step's gradient, before clipping. In train.PhaseMeta, it is
	// the norm of the gradient at the nodes of the meta-learners' tables.
	GradNorm     float64 `json:"grad_norm,omitempty"`
	TokensPerSec float64 `json:"tokens_per_s,omitempty"` // speed since the previous line
	// Static is the validation loss without fast weights, in bits per token.
	Static float64 `json:"valid_static,omitempty"`
	// validation loss with fast weights, in bits per token
	Adaptive float64 `json:"valid_adaptive,omitempty"`
	// StaticPerplexity and AdaptivePerplexity are 2 to the power of Static and Adaptive, for a
	// model of words.
	StaticPerplexity   float64 `json:"valid_perplexity_static,omitempty"`
	AdaptivePerplexity float64 `json:"valid_perplexity_adaptive,omitempty"`
	Best               bool    `json:"best,omitempty"`
}

const metricsName = "metrics.jsonl"

// metrics keeps the metrics of a run in memory and, if there is a file, appends them to the file. A
// resumed run continues the file of the interrupted run; see current.
type metrics struct {
	path  string // "" means a file in the folder of the checkpoints
	file  *os.File
	lines []Metric
	pace  pace
	unit  train.Unit
}

// Observe writes the metrics line of an event. Some events have no line.
func (m *metrics) Observe(e train.Event) error {
	switch e := e.(type) {
	case train.Opened:
		m.unit = e.Unit
		if m.path == "" && e.Dir != "" {
			m.path = filepath.Join(e.Dir, metricsName)
		}
		return m.open()
	case train.Begun:
		event := eventStart
		if e.Step > 0 {
			event = eventResume
		}
		err := m.write(lineOf(event, e.Standing))
		m.pace.start(time.Now())
		return err
	case train.Stepped:
		return m.stepped(e)
	case train.Validated:
		m.pace.pause(e.Took)
		return m.validated(e)
	case train.Ended:
		if e.Err == nil {
			return m.write(lineOf(eventEnd, e.Standing))
		}
	case train.Finished:
		return m.close()
	}
	return nil
}

func lineOf(event string, at train.Standing) Metric {
	return Metric{Event: event, Phase: at.Phase, Step: at.Step, Tokens: at.Tokens}
}

func (m *metrics) stepped(e train.Stepped) error {
	if !m.pace.add(e) {
		return nil
	}
	now, line := time.Now(), lineOf(eventStep, e.Standing)
	line.Loss = m.pace.meanLoss()
	line.Bits = line.Loss * train.BitsPerNat
	line.Perplexity = m.perplexity(line.Bits)
	line.Rate, line.SlowRate, line.GradNorm = e.Outcome.Rate, e.Outcome.SlowRate, e.Outcome.Norm
	line.TokensPerSec = m.pace.tokensPerSec(now)
	m.pace.start(now)
	return m.write(line)
}

func (m *metrics) validated(e train.Validated) error {
	line := lineOf(eventValid, e.Standing)
	line.Static, line.Best = e.Measurement.Static, e.Best
	line.StaticPerplexity = m.perplexity(line.Static)
	if e.Measurement.Adaptive != nil {
		line.Adaptive = *e.Measurement.Adaptive
		line.AdaptivePerplexity = m.perplexity(line.Adaptive)
	}
	return m.write(line)
}

// perplexity returns the perplexity for a number of bits per token, or 0 for a model of bytes.
func (m *metrics) perplexity(bits float64) float64 {
	if m.unit != train.Perplexity {
		return 0
	}
	return m.unit.Of(bits)
}

// open reads the file, which need not exist, and prepares it for appending. It skips a line that
// was cut off by a full disk or a power failure.
func (m *metrics) open() error {
	if m.path == "" {
		return nil
	}
	f, err := os.OpenFile(m.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666)
	if err != nil {
		return m.failed(err)
	}
	m.file = f
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil // a pipe or a device has nothing to read
	}
	text, err := io.ReadAll(f)
	if err != nil {
		f.Close()
		return m.failed(err)
	}
	for line := range bytes.Lines(text) {
		var l Metric
		if json.Unmarshal(line, &l) == nil {
			m.lines = append(m.lines, l)
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return m.append([]byte{'\n'})
	}
	return nil
}

func (m *metrics) write(line Metric) error {
	line.Time = time.Now().UTC().Truncate(time.Millisecond)
	m.lines = append(m.lines, line)
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("train: metrics: %w", err)
	}
	return m.append(append(text, '\n'))
}

func (m *metrics) append(text []byte) error {
	if m.file == nil {
		return nil
	}
	_, err := m.file.Write(text)
	return m.failed(err)
}

func (m *metrics) close() error {
	if m.file == nil {
		return nil
	}
	return m.failed(m.file.Close())
}

// failed adds the metrics file's path to an error, in place of the path from the file system.
func (m *metrics) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("train: metrics file %s: %w", m.path, cmp.Or(errors.Unwrap(err), err))
}

// pace sums up the steps since the last line of metrics.
type pace struct {
	every   int
	started time.Time
	steps   int
	tokens  int64
	loss    float64 // sum of the steps' losses, nats per token
}

func (p *pace) start(now time.Time) { *p = pace{every: p.every, started: now} }

func (p *pace) add(s train.Stepped) (due bool) {
	p.steps++
	p.tokens += int64(s.Outcome.Tokens)
	p.loss += s.Outcome.Loss
	return s.Step%p.every == 0
}

// pause excludes time without steps from the measured speed.
func (p *pace) pause(took time.Duration) { p.started = p.started.Add(took) }

// meanLoss returns the mean loss of the steps, in nats per token.
func (p *pace) meanLoss() float64 { return p.loss / float64(p.steps) }

func (p *pace) tokensPerSec(now time.Time) float64 {
	took := now.Sub(p.started).Seconds()
	if took <= 0 { // a coarse clock may measure no time
		return 0
	}
	return float64(p.tokens) / took
}

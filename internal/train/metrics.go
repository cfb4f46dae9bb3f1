package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Events of Metric.
const (
	eventStart  = "start" // of a phase
	eventResume = "resume"
	eventStep   = "step" // and those since the last such line
	eventValid  = "valid"
	eventEnd    = "end"
)

// Metric is one line of the metrics file: what happened since the line before it. Fields that do not apply are left out.
type Metric struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // an event below
	Phase string    `json:"phase"`
	Step  int       `json:"step"` // optimiser steps made in the phase

	Tokens       int64   `json:"tokens"`                   // scored for training in the phase so far
	Loss         float64 `json:"loss,omitempty"`           // nats a token, mean over the steps since the last line
	BPC          float64 `json:"bpc,omitempty"`            // the same in bits a character
	Rate         float64 `json:"lr,omitempty"`             // learning rate of the last step; but in pretraining that of the meta-learners
	SlowRate     float64 `json:"slow_lr,omitempty"`        // learning rate of the slow weights in the phase joint
	GradNorm     float64 `json:"grad_norm,omitempty"`      // of the last step, before clipping; phase meta: of the gradient at the tables' nodes
	TokensPerSec float64 `json:"tokens_per_s,omitempty"`   // since the last line
	Static       float64 `json:"valid_static,omitempty"`   // validation, bits a character, without fast weights
	Adaptive     float64 `json:"valid_adaptive,omitempty"` // the same with them
	Best         bool    `json:"best,omitempty"`           // the validation is the best so far
}

// metricsName is the metrics file in the folder of the checkpoints.
const metricsName = "metrics.jsonl"

// metrics are the lines of a run so far, over all its sittings, in memory and at the end of a file. A run that goes on appends: see
// current. Without a file they are in memory alone.
type metrics struct {
	file  *os.File
	lines []Metric
}

// openMetrics reads what a file has, which need not exist, and makes it ready for more. A line that is cut off, by a full disk or a power
// failure, is passed over.
func openMetrics(path string) (*metrics, error) {
	m := &metrics{}
	if path == "" {
		return m, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666)
	if err != nil {
		return nil, fmt.Errorf("train: metrics file %s: %w", path, pathCause(err))
	}
	m.file = f
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return m, nil // a pipe or a device has nothing to read
	}
	text, err := io.ReadAll(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("train: metrics file %s: %w", path, pathCause(err))
	}
	for line := range bytes.Lines(text) {
		var l Metric
		if json.Unmarshal(line, &l) == nil {
			m.lines = append(m.lines, l)
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return m, m.append([]byte{'\n'})
	}
	return m, nil
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
	if _, err := m.file.Write(text); err != nil {
		return fmt.Errorf("train: metrics file %s: %w", m.file.Name(), pathCause(err))
	}
	return nil
}

func (m *metrics) close() error {
	if m.file == nil {
		return nil
	}
	if err := m.file.Close(); err != nil {
		return fmt.Errorf("train: metrics file %s: %w", m.file.Name(), pathCause(err))
	}
	return nil
}

// ofRun are the lines since a run with that first phase has begun: a file may have others before it.
func ofRun(lines []Metric, first string) []Metric {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].Event == eventStart && lines[i].Phase == first {
			return lines[i:]
		}
	}
	return lines
}

// current are the lines that count, of a run with the given phases. A sitting that begins or goes on after some step of a phase supersedes
// what was written before of that phase's later steps and of later phases.
func current(lines []Metric, phases []string) []Metric {
	var now []Metric
	for _, line := range lines {
		order := slices.Index(phases, line.Phase)
		if order < 0 {
			continue
		}
		if line.Event == eventStart || line.Event == eventResume {
			now = slices.DeleteFunc(now, func(old Metric) bool {
				was := slices.Index(phases, old.Phase)
				return was > order || was == order && (old.Step > line.Step || line.Event == eventStart)
			})
		}
		now = append(now, line)
	}
	return now
}

// elapsed is the time that each phase has taken, superseded steps and all: the time between neighbouring lines of a sitting.
func elapsed(lines []Metric) map[string]time.Duration {
	spent := map[string]time.Duration{}
	for i := 1; i < len(lines); i++ {
		if lines[i].Event != eventStart && lines[i].Event != eventResume {
			spent[lines[i].Phase] += lines[i].Time.Sub(lines[i-1].Time)
		}
	}
	return spent
}

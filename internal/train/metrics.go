package train

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Metric is one line of the metrics file: what happened since the line before it. Fields that do not apply are left out.
type Metric struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // "start", "resume", "step", "valid" or "end"
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

// metricsFile writes metrics as JSON lines at the end of a file. A resumed run appends: its "resume" line says after which step it goes on,
// and lines of the same phase with a higher step before it are superseded. The zero value writes nothing.
type metricsFile struct{ file *os.File }

func openMetrics(path string) (metricsFile, error) {
	if path == "" {
		return metricsFile{}, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return metricsFile{}, fmt.Errorf("train: metrics file %s: %w", path, pathCause(err))
	}
	return metricsFile{f}, nil
}

func (m metricsFile) write(line Metric) error {
	if m.file == nil {
		return nil
	}
	line.Time = time.Now().UTC().Truncate(time.Millisecond)
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("train: metrics file %s: %w", m.file.Name(), err)
	}
	if _, err := m.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("train: metrics file %s: %w", m.file.Name(), pathCause(err))
	}
	return nil
}

func (m metricsFile) close() error {
	if m.file == nil {
		return nil
	}
	if err := m.file.Close(); err != nil {
		return fmt.Errorf("train: metrics file %s: %w", m.file.Name(), pathCause(err))
	}
	return nil
}

package train

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// BitsPerNat turns nats a token into bits a token.
const BitsPerNat = 1 / math.Ln2

// Outcome is what one step of a phase did.
type Outcome struct {
	Loss   float64 // mean loss, nats a token
	Tokens int     // tokens scored
	Rate   float64 // learning rate: of the slow weights in pretraining, else of the meta-learners
	// Norm is that of the gradient, before clipping; without slow weights, that of the gradient at
	// the nodes of the meta-learners' tables.
	Norm float64

	SlowRate float64 // learning rate of the slow weights in a joint phase
}

// finite tells whether a step went well.
func (o Outcome) finite() bool {
	sum := o.Loss + o.Norm
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// Measurement is what was measured on the validation text, in bits a character or, for a model of
// words, in bits a token.
type Measurement struct {
	Step     int        `json:"step"` // step of the phase
	Static   float64    `json:"static"`
	Adaptive *float64   `json:"adaptive,omitempty"` // nil for a model without meta-learners
	Words    *WordCount `json:"words,omitempty"`    // nil for a model of bytes
}

// WordCount says what a measurement in bits a token is of. Tokens are counted as the literature
// does for perplexities: words, unknown ones among them, and ends of lines.
type WordCount struct {
	Tokens  int `json:"tokens"`
	Unknown int `json:"unknown"`
}

func (v Measurement) String() string {
	if w := v.Words; w != nil {
		return fmt.Sprintf("valid perplexity static %.2f (%.2f %% of %s tokens unknown)",
			math.Exp2(v.Static),
			100*float64(w.Unknown)/float64(w.Tokens), humanize.Comma(int64(w.Tokens)))
	}
	text := fmt.Sprintf("valid bpc static %.4f", v.Static)
	if v.Adaptive != nil {
		text += fmt.Sprintf(", adaptive %.4f", *v.Adaptive)
	}
	return text
}

// score is what the best checkpoint is chosen by: the adaptive measure if there is one.
func (v Measurement) score() float64 {
	if v.Adaptive != nil {
		return *v.Adaptive
	}
	return v.Static
}

// Unit is what losses and measurements are told in.
type Unit struct {
	Short string // "bpc" or "bits/token"
	Long  string // "bits per character" or "bits per token"
}

// Units of models of bytes, whose characters are bytes, and of words.
var (
	PerCharacter = Unit{"bpc", "bits per character"}
	PerToken     = Unit{"bits/token", "bits per token"}
)

// PhaseReport is what one phase did.
type PhaseReport struct {
	Phase string `json:"phase"` // PhasePretrain, PhaseMeta or PhaseJoint
	Steps int    `json:"steps"` // optimiser steps made
	// Tokens is how many were scored for training; a token of a byte-level model is a byte.
	Tokens int64   `json:"tokens"`
	Loss   float64 `json:"loss"` // nats a token, running mean at the end
	// Best is the measurement of the weights that the phase ended with; nil without validation
	// text.
	Best *Measurement `json:"valid,omitempty"`
}

// Bits is the running training loss at the end, in bits a token.
func (p PhaseReport) Bits() float64 { return p.Loss * BitsPerNat }

// Report is what a run did.
type Report struct {
	Unit    Unit
	Phases  []PhaseReport
	Stored  *Measurement // of the model as it is in its file, rounded; nil without validation text
	Model   string       // id of the model: its name and the start of its hash
	Out     string       // where the model was written; "" if nowhere
	Elapsed time.Duration
}

// String has a line for each phase and one for the model.
func (r Report) String() string {
	var b strings.Builder
	for _, p := range r.Phases {
		fmt.Fprintf(&b, "%s: %d steps, %d tokens, training %s %.4f", p.Phase, p.Steps, p.Tokens,
			r.Unit.Short, p.Bits())
		if p.Best != nil {
			fmt.Fprintf(&b, ", %s at step %d", p.Best, p.Best.Step)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "model %s", r.Model)
	if r.Stored != nil {
		fmt.Fprintf(&b, ", %s,", r.Stored)
	}
	if r.Out != "" {
		fmt.Fprintf(&b, " written to %s", r.Out)
	}
	fmt.Fprintf(&b, ", %s in this run\n", r.Elapsed.Round(time.Second))
	return b.String()
}

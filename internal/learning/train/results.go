package train

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
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

// diverged reports a loss or a norm that is not finite, or a mean loss that no token reaches under
// trained weights.
func (o Outcome) diverged() bool {
	return !(o.Loss <= stream.TokenBitsMax*math.Ln2 && o.Norm <= math.MaxFloat64)
}

// Measurement is what was measured on the validation text, in bits a token.
type Measurement struct {
	Step int `json:"step"` // step of the phase
	// Static is of the slow weights, which with Companion have one beside them, as has Adaptive.
	Static   float64    `json:"static"`
	Adaptive *float64   `json:"adaptive,omitempty"` // nil for a model without meta-learners
	Words    *WordCount `json:"words,omitempty"`    // nil for a model of bytes
	// Companion says that the bits are those of the mixtures with a companion of counts.
	Companion bool `json:"companion,omitempty"`
}

// WordCount says what a measurement in bits a token is of. Tokens are counted as the literature
// does for perplexities: words, unknown ones among them, and ends of lines.
type WordCount struct {
	Tokens  int `json:"tokens"`
	Unknown int `json:"unknown"`
}

// of says how many tokens there are, and which part of them are unknown words.
func (w WordCount) of() string {
	return fmt.Sprintf("%s tokens, %.2f %% of them unknown words",
		humanize.Comma(int64(w.Tokens)), 100*float64(w.Unknown)/float64(w.Tokens))
}

func (v Measurement) String() string {
	u := unitOf(v.Words != nil)
	text := fmt.Sprintf("valid %s static %s", u.Short, u.Text(v.Static))
	if v.Adaptive != nil {
		text += ", adaptive " + u.Text(*v.Adaptive)
	}
	if v.Words != nil && v.Adaptive != nil {
		text += fmt.Sprintf(", %+.2f %%", 100*(math.Exp2(*v.Adaptive-v.Static)-1))
	}
	if v.Words != nil {
		text += " (" + v.Words.of() + ")"
	}
	if v.Companion {
		text += " (with companion)"
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

// Unit is what losses and measurements, which are in bits a token, are told in.
type Unit struct {
	Short string // "bits/byte" or "perplexity"
	Bits  string // what curves are in: "bits per byte" or "bits per token"

	power  bool // whether 2 to the power of the bits is told
	digits int
}

// Units of models of bytes and of words. The literature calls bits per byte of enwik8 bits per
// character. The perplexity is the literature's: 2 to the power of the bits a token.
var (
	PerByte    = Unit{Short: "bits/byte", Bits: "bits per byte", digits: 4}
	Perplexity = Unit{Short: "perplexity", Bits: "bits per token", power: true, digits: 2}
)

// unitOf is the unit of a model of words, or of bytes.
func unitOf(words bool) Unit {
	if words {
		return Perplexity
	}
	return PerByte
}

// Of returns bits a token in the unit.
func (u Unit) Of(bits float64) float64 {
	if u.power {
		return math.Exp2(bits)
	}
	return bits
}

// Text is Of with as many digits as matter.
func (u Unit) Text(bits float64) string {
	return strconv.FormatFloat(u.Of(bits), 'f', u.digits,
		64)
}

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
		fmt.Fprintf(&b, "%s: %d steps, %d tokens, training %s %s", p.Phase, p.Steps, p.Tokens,
			r.Unit.Short, r.Unit.Text(p.Bits()))
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

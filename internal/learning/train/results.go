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

// BitsPerNat converts nats per token to bits per token.
const BitsPerNat = 1 / math.Ln2

// Outcome is the result of one step of a phase.
type Outcome struct {
	Loss   float64 // mean loss, nats per token
	Tokens int
	Rate   float64 // learning rate: of the slow weights in pretraining, else of the meta-learners
	// Norm is the norm of the gradient, before clipping. If the slow weights are frozen, Norm is
	// the norm of the gradient at the nodes of the meta-learners' tables.
	Norm float64

	SlowRate float64 // learning rate of the slow weights in PhaseJoint
}

// diverged reports whether loss or norm are not finite, or the mean loss is too large for trained
// weights.
func (o Outcome) diverged() bool {
	return !(o.Loss <= stream.TokenBitsMax*math.Ln2 && o.Norm <= math.MaxFloat64)
}

// Measurement is a measurement on the validation text, in bits per token.
type Measurement struct {
	Step int `json:"step"` // optimizer step in the phase
	// Static is the result of the slow weights alone. If Companion is true, a companion contributes
	// to both Static and Adaptive.
	Static   float64    `json:"static"`
	Adaptive *float64   `json:"adaptive,omitempty"` // nil for a model without meta-learners
	Words    *WordCount `json:"words,omitempty"`    // nil for a model of bytes
	// Companion says that the network was mixed with a companion.
	Companion bool `json:"companion,omitempty"`
}

// WordCount counts the tokens of a measurement. As usual for perplexities, the tokens are words,
// including unknown words, and ends of lines.
type WordCount struct {
	Tokens  int `json:"tokens"`
	Unknown int `json:"unknown"`
}

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

// score returns the measurement that selects the best checkpoint; lower is better.
func (v Measurement) score() float64 {
	if v.Adaptive != nil {
		return *v.Adaptive
	}
	return v.Static
}

// Unit is the unit in which losses and measurements are shown. Internally, the unit is bits per
// token.
type Unit struct {
	Short string // "bits/byte" or "perplexity"
	Bits  string // unit of curves: "bits per byte" or "bits per token"

	power  bool // whether to show 2 to the power of the bits
	digits int
}

// PerByte and Perplexity are the units for models of bytes and of words. Papers call the bits per
// byte of enwik8 bits per character. The perplexity is 2 to the power of the bits per token.
var (
	PerByte    = Unit{Short: "bits/byte", Bits: "bits per byte", digits: 4}
	Perplexity = Unit{Short: "perplexity", Bits: "bits per token", power: true, digits: 2}
)

func unitOf(words bool) Unit {
	if words {
		return Perplexity
	}
	return PerByte
}

// Of converts bits per token to the unit u.
func (u Unit) Of(bits float64) float64 {
	if u.power {
		return math.Exp2(bits)
	}
	return bits
}

// Text formats the result of Of with the unit's number of decimals.
func (u Unit) Text(bits float64) string {
	return strconv.FormatFloat(u.Of(bits), 'f', u.digits,
		64)
}

// PhaseReport is the result of one phase.
type PhaseReport struct {
	Phase string `json:"phase"`
	Steps int    `json:"steps"`
	// Tokens is the number of tokens scored for training; in a model of bytes a token is a byte.
	Tokens int64   `json:"tokens"`
	Loss   float64 `json:"loss"` // running mean at the end of the phase, in nats per token
	// Best is the measurement of the weights that the phase ended with; nil without validation
	// text.
	Best *Measurement `json:"valid,omitempty"`
}

// Bits returns the running mean of the training loss at the end of the phase, in bits per token.
func (p PhaseReport) Bits() float64 { return p.Loss * BitsPerNat }

// Report is the result of a run.
type Report struct {
	Unit   Unit
	Phases []PhaseReport
	// Stored is the measurement of the model in its file, with rounded weights. It is nil without
	// validation text.
	Stored  *Measurement
	Model   string // id of the model: its name and the start of its hash
	Out     string // path of the model's file; "" if it was not written
	Elapsed time.Duration
}

// String returns a line for each phase and a line for the model.
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
		fmt.Fprintf(&b, ", %s", r.Stored)
	}
	if r.Stored != nil && r.Out != "" {
		b.WriteByte(',')
	}
	if r.Out != "" {
		fmt.Fprintf(&b, " written to %s", r.Out)
	}
	fmt.Fprintf(&b, ", %s in this run\n", r.Elapsed.Round(time.Second))
	return b.String()
}

package train

import (
	"fmt"
	"strings"
	"time"

	"github.com/lmserve/lmserve/txl"
)

// PhaseReport is what one phase did.
type PhaseReport struct {
	Phase  string      `json:"phase"`           // PhasePretrain, PhaseMeta or PhaseJoint
	Steps  int         `json:"steps"`           // optimiser steps made
	Tokens int64       `json:"tokens"`          // scored for training; a token of a byte-level model is a byte
	Loss   float64     `json:"loss"`            // nats a token, running mean at the end
	Best   *Validation `json:"valid,omitempty"` // of the weights the phase ended with; nil without validation text
}

// Report is what a run did.
type Report struct {
	Phases  []PhaseReport
	Stored  *Validation // of the model as it is in its file, rounded; nil without validation text
	Model   string      // id of the model: its name and the start of its hash
	Out     string      // where it was written; "" if nowhere
	Elapsed time.Duration
}

// String is a line a phase and one for the model.
func (r Report) String() string {
	var b strings.Builder
	for _, p := range r.Phases {
		fmt.Fprintf(&b, "%s: %d steps, %d tokens, training bpc %.4f", p.Phase, p.Steps, p.Tokens, p.Loss*bitsPerNat)
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

// textRecord describes a directory of text.
type textRecord struct {
	Files       int      `json:"files"`
	Bytes       int      `json:"bytes"`
	Domains     []string `json:"domains,omitempty"`
	Fingerprint string   `json:"fingerprint"`
}

func (c *Corpus) record() textRecord {
	return textRecord{len(c.Documents), c.Bytes(), c.Domains(), c.Fingerprint()}
}

// runRecord identifies a run: everything that its bits depend on. A checkpoint is resumed by a run with the same record only.
type runRecord struct {
	Phases     []string           `json:"phases"`
	Name       string             `json:"name"`
	Init       string             `json:"init,omitempty"` // hash of the model gone on from
	Model      txl.Config         `json:"model"`
	Data       textRecord         `json:"data"`
	HoldOut    []string           `json:"hold_out,omitempty"`
	Valid      *textRecord        `json:"valid,omitempty"`
	KeptBack   bool               `json:"kept_back,omitempty"` // Valid is a part of the directory that Data is the rest of
	Seed       uint64             `json:"seed"`
	Pretrain   *PretrainOptions   `json:"pretrain,omitempty"` // nil if the phase is not part of the run
	Meta       *MetaOptions       `json:"meta,omitempty"`     // nil if the run is pretraining alone
	Joint      *JointOptions      `json:"joint,omitempty"`    // nil if the phase is not part of the run
	Chunk      int                `json:"chunk"`
	Validation *ValidationOptions `json:"validation,omitempty"`
}

// card is what a model's file says of its making. It holds nothing that two runs of the same record would not share, so that a resumed
// run ends with the same file, to the byte, as one that was not interrupted.
type card struct {
	Recipe   runRecord     `json:"recipe"`
	Results  []PhaseReport `json:"results"`
	Store    string        `json:"store"`           // type of the slow weights in the file
	Stored   *Validation   `json:"valid,omitempty"` // of the model as stored
	Numerics string        `json:"numerics"`        // arithmetic of the machine, see kernel.Arithmetic.Numerics
}

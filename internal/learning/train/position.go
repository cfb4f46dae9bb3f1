package train

// position is the position of a run, with everything that its loop must remember.
type position struct {
	Phase  string  `json:"phase"`
	Step   int     `json:"step"`   // optimizer steps made in the phase
	Tokens int64   `json:"tokens"` // tokens scored in the phase
	Loss   float64 `json:"loss"`   // running mean, nats per token
	// Validated is the step of the phase's last validation; -1 before the first.
	Validated int           `json:"validated"`
	Stale     int           `json:"stale"` // validations since the best one
	Best      *Measurement  `json:"best,omitempty"`
	Done      []PhaseReport `json:"done,omitempty"` // phases that ended
}

// lossMemory is the weight of one step in the running mean of the training loss.
const lossMemory = 0.02

// stepped advances the position by a step.
func (p *position) stepped(o Outcome) {
	if p.Step == 0 {
		p.Loss = o.Loss
	}
	p.Loss += lossMemory * (o.Loss - p.Loss)
	p.Step++
	p.Tokens += int64(o.Tokens)
}

// validated records a measurement and reports whether it is the best so far.
func (p *position) validated(v Measurement) (best bool) {
	p.Validated = p.Step
	p.Stale++
	if best = p.Best == nil || v.score() < p.Best.score(); best {
		p.Best, p.Stale = &v, 0
	}
	return best
}

// report returns the report of the current phase.
func (p *position) report() PhaseReport {
	return PhaseReport{Phase: p.Phase, Steps: p.Step, Tokens: p.Tokens, Loss: p.Loss, Best: p.Best}
}

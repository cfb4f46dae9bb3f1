package train

// position is the position of a run in its phases, with the state of the training loop.
type position struct {
	Phase  string  `json:"phase"`
	Step   int     `json:"step"`
	Tokens int64   `json:"tokens"`
	Loss   float64 `json:"loss"` // running mean, nats per token
	// Validated is the step of the phase's last validation; -1 before the first.
	Validated int           `json:"validated"`
	Stale     int           `json:"stale"` // validations since the best validation
	Best      *Measurement  `json:"best,omitempty"`
	Done      []PhaseReport `json:"done,omitempty"`
}

// lossMemory is the weight of one step in the running mean of the training loss.
const lossMemory = 0.02

func (p *position) stepped(o Outcome) {
	if p.Step == 0 {
		p.Loss = o.Loss
	}
	p.Loss += lossMemory * (o.Loss - p.Loss)
	p.Step++
	p.Tokens += int64(o.Tokens)
}

func (p *position) validated(v Measurement) (best bool) {
	p.Validated = p.Step
	p.Stale++
	if best = p.Best == nil || v.score() < p.Best.score(); best {
		p.Best, p.Stale = &v, 0
	}
	return best
}

func (p *position) report() PhaseReport {
	return PhaseReport{Phase: p.Phase, Steps: p.Step, Tokens: p.Tokens, Loss: p.Loss, Best: p.Best}
}

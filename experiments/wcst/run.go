package main

import (
	"github.com/lmserve/lmserve/experiments/metanet"
	"github.com/lmserve/lmserve/experiments/tape"
)

const (
	solvedEpisodes = 3    // without an error: 48 cards
	waitEpisodes   = 50   // after a task is solved, the rule changes within this many episodes
	hidden         = 256  // units of each layer
	giveUp         = 2000 // updates after which a task counts as failed

	slotsKept = 2 * episode
	slotUnits = 8 // width of the layers of the meta-learner for slots
)

// A method says how an agent learns.
type method struct {
	Name    string
	Solver  string // adam or rmsprop
	Rate    float64
	Offline bool // a new agent for every task
	Fast    bool // Sparse-MetaNet
	Slots   bool // the original MetaNet: slots and attention, for the policy's matrix
}

func (m method) solver() tape.Solver {
	if m.Solver == "rmsprop" {
		return &tape.RMSProp{Rate: m.Rate}
	}
	return &tape.Adam{Rate: m.Rate}
}

func (m method) agent(seed uint64) (*agent, error) {
	a := newAgent(hidden, m.solver(), seed)
	if m.Slots {
		shape := [2]int{hidden, codes}
		a.slots = metanet.NewSlots([][2]int{shape}, slotUnits, 1, a.random)
		a.slots.Limit = slotsKept
	}
	if !m.Fast {
		return a, nil
	}
	var err error
	a.fast, err = metanet.New(a.matrices, paper(m.Rate), seed)
	return a, err
}

// A task is the result of one rule.
type task struct {
	Updates int // updates until the rule was found, or giveUp
	Errors  int // choices that follow the rule before, until the rule changes again
	Failed  bool
}

// run plays tasks in turn and returns the result of each. An agent that fails a task fails all
// later ones: an online agent has diverged then, and an offline one learns too slowly.
func run(m method, tasks int, seed uint64) ([]task, error) {
	g := newGame(seed)
	a, err := m.agent(seed)
	if err != nil {
		return nil, err
	}
	defer func() { a.close() }()
	var results []task
	for n := range tasks {
		if n > 0 && results[n-1].Failed {
			results = append(results, results[n-1])
			continue
		}
		if n > 0 {
			g.change()
			if m.Offline {
				a.close()
				if a, err = m.agent(seed + 1000*uint64(n)); err != nil {
					return nil, err
				}
			}
		}
		r, err := a.solve(g, !m.Offline)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// solve plays until a task is solved and, if the agent waits, up to 50 episodes more.
func (a *agent) solve(g *game, wait bool) (task, error) {
	var r task
	for perfect := 0; perfect < solvedEpisodes; perfect++ {
		if r.Updates == giveUp {
			r.Failed = true
			return r, nil
		}
		wrong, err := a.episode(g, &r)
		if err != nil {
			return r, err
		}
		r.Updates++
		if wrong > 0 {
			perfect = -1
		}
	}
	if wait {
		for range g.random.IntN(waitEpisodes) {
			if _, err := a.episode(g, &r); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// episode plays 16 cards and returns the number of errors. It adds the choices that follow the rule
// before to r.Errors.
func (a *agent) episode(g *game, r *task) (wrong int, err error) {
	cards, categories, before := g.deal()
	choices, err := a.play(cards, categories)
	for i, c := range choices {
		if c != categories[i] {
			wrong++
		}
		if c == before[i] {
			r.Errors++
		}
	}
	return wrong, err
}

func (a *agent) close() {
	if a.fast != nil {
		a.fast.Close()
	}
}

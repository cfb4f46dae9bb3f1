package main

import (
	"github.com/lmserve/lmserve/experiments/metanet"
	"github.com/lmserve/lmserve/experiments/tape"
)

const (
	solvedEpisodes = 3  // a task is solved after 3 episodes (48 cards) without an error
	waitEpisodes   = 50 // after a task is solved, the rule changes within this many episodes
	hidden         = 256
	giveUp         = 2000 // updates after which a task counts as failed
	restartsMost   = 10

	slotsKept = episode
	slotUnits = 8
)

type method struct {
	Name    string
	Solver  string // "adam" or "rmsprop"
	Rate    float64
	Offline bool
	Fast    bool // the method is Sparse-MetaNet
	// the method is the original MetaNet, with memory slots for the policy's matrix
	Slots bool
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

// A task is the result of one rule in a run.
type task struct {
	Updates int // updates until the rule was found, or giveUp
	// number of choices that follow the previous rule, until the next change of rule
	Errors int
	// number of agents replaced because their second layer was inactive for every card
	Restarts int
	Failed   bool
}

// run plays the tasks in turn and returns their results. If an agent fails a task, all later tasks
// count as failed. The reason: an online agent has then diverged, and an offline agent learns too
// slowly.
func run(m method, tasks int, seed uint64) (results []task, err error) {
	g := newGame(seed)
	var a *agent
	defer func() { a.close() }()
	for n := range tasks {
		var r task
		switch {
		case n > 0 && results[n-1].Failed:
			r = results[n-1]
			r.Restarts = 0
		case n == 0 || m.Offline:
			if n > 0 {
				g.change()
				a.close()
			}
			a, r, err = m.first(g, seed+1000*uint64(n))
		default:
			g.change()
			r, err = a.solve(g, true)
		}
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// first returns a new agent and the result of the agent's first task. If an agent fails because its
// second layer is inactive for every card, first replaces the agent, as in the paper's appendix A.
func (m method) first(g *game, seed uint64) (a *agent, r task, err error) {
	for restarts := 0; ; restarts++ {
		if a, err = m.agent(seed + 1_000_000_000*uint64(restarts)); err != nil {
			return nil, r, err
		}
		r, err = a.solve(g, !m.Offline)
		r.Restarts = restarts
		if err != nil || !r.Failed || !a.dead || restarts == restartsMost {
			return a, r, err
		}
		a.close()
	}
}

// solve plays until the task is solved. If wait is true, the agent then plays fewer than 50 more
// episodes.
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

// episode plays 16 cards and returns the number of errors. It adds the choices that follow the
// previous rule to r.Errors.
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
	if a != nil && a.fast != nil {
		a.fast.Close()
	}
}

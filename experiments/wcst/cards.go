package main

import "math/rand/v2"

// Every card shows a color, a shape and a number, each with one of four codes.
const (
	features = 3
	codes    = 4
	inputs   = features * codes
	episode  = 16 // cards
)

// A game deals cards. The rule says which feature of a card is its category.
type game struct {
	random   *rand.Rand
	rule     int
	lastRule int // -1 before the first change
}

func newGame(seed uint64) *game {
	g := &game{random: rand.New(rand.NewPCG(seed, 1)), lastRule: -1}
	g.rule = g.random.IntN(features)
	return g
}

// change draws another rule.
func (g *game) change() {
	g.lastRule = g.rule
	g.rule = (g.rule + 1 + g.random.IntN(features-1)) % features
}

// deal returns the cards of an episode as one-hot codes, and the category of each card. before has
// each card's category by the rule before the current one, or -1 if there was none. The three codes
// of a card differ, as in the paper's appendix C; so every feature gives another category.
func (g *game) deal() (cards []float64, categories, before []int) {
	cards = make([]float64, episode*inputs)
	for i := range episode {
		drawn := g.random.Perm(codes)[:features]
		for f, code := range drawn {
			cards[i*inputs+f*codes+code] = 1
		}
		categories = append(categories, drawn[g.rule])
		last := -1
		if g.lastRule >= 0 {
			last = drawn[g.lastRule]
		}
		before = append(before, last)
	}
	return cards, categories, before
}

package main

import "math/rand/v2"

// Every card has a color, a shape and a number. Each of these features has one of four values.
const (
	features = 3
	codes    = 4
	inputs   = features * codes
	episode  = 16 // cards per episode
)

// A game deals cards. Its rule is the feature that decides a card's category: color, shape or
// number.
type game struct {
	random   *rand.Rand
	rule     int
	lastRule int // previous rule; -1 before the first change
}

func newGame(seed uint64) *game {
	g := &game{random: rand.New(rand.NewPCG(seed, 1)), lastRule: -1}
	g.rule = g.random.IntN(features)
	return g
}

func (g *game) change() {
	g.lastRule = g.rule
	g.rule = (g.rule + 1 + g.random.IntN(features-1)) % features
}

// deal returns the one-hot codes of an episode's cards and the category of each card. before has
// each card's category by the previous rule, or -1 if there is no previous rule. The three features
// of a card have different values, as in the paper's appendix C, so each rule gives a card a
// different category.
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

package main

import (
	"fmt"
	"math/rand/v2"
)

// toy returns generated sentences. Each sentence has one word that belongs to one of 30 kinds. Two
// other words of the sentence depend only on this kind; the rest is random. A method that has
// learned the kinds can recognize a new word after one example.
func toy(sentences int, seed uint64) (text [][]string) {
	const kinds, wordsOfKind, cues, fillers = 30, 12, 4, 40
	r := rand.New(rand.NewPCG(seed, 11))
	for range sentences {
		kind := r.IntN(kinds)
		filler := func() string { return fmt.Sprintf("filler%d", r.IntN(fillers)) }
		cue := func(side string) string { return fmt.Sprintf("%s%d.%d", side, kind, r.IntN(cues)) }
		text = append(text, []string{filler(), filler(), cue("left"), filler(),
			fmt.Sprintf("word%d.%d", kind, r.IntN(wordsOfKind)), cue("right"), filler(), filler()})
	}
	return text
}

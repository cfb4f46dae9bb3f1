package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"time"
)

func main() {
	only := flag.String("m", "", "")
	tk := flag.Int("t", 0, "")
	n := flag.Int("n", 2000, "")
	v := flag.Int("v", 1, "")
	rate := flag.Float64("r", 0, "")
	seed := flag.Uint64("seed", 100, "")
	flag.Parse()
	k := tasks(*v)[*tk]
	for _, m := range methods() {
		if *only != "" && m.name != *only {
			continue
		}
		if *rate > 0 {
			m.rate = *rate
		}
		l, err := m.make(k, m.rate, *seed)
		if err != nil {
			panic(err)
		}
		r := rand.New(rand.NewPCG(*seed, 2))
		start := time.Now()
		var sum score
		for i := range *n {
			sc, err := l.learn(k.sample(r))
			if err != nil {
				panic(err)
			}
			sum.add(sc)
			if (i+1)%(*n/10) == 0 {
				fmt.Printf("%s %d: %.2f bits %.3f wrong %v\n", m.name, i+1, sum.Bits/float64(*n/10), float64(sum.Wrong)/float64(sum.All), time.Since(start).Round(time.Second))
				sum = score{}
			}
		}
		for _, f := range []int{1, 2, 4} {
			var sum score
			for range 20 {
				sum.add(l.answer(k.draw(r, f*k.max, k.vectors)))
			}
			fmt.Printf("%s x%d %.2f bits %.3f wrong\n", m.name, f, sum.Bits/20, float64(sum.Wrong)/float64(sum.All))
		}
	}
}

package eval

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"
	"strings"
	"runtime"
)

func TestDev(t *testing.T) {
	var prior *ngramCounts
	if d := os.Getenv("PRIOR"); d != "" {
		began := time.Now()
		var err error
		prior, err = readPrior(d, PriorBytes)
		if err != nil { t.Fatal(err) }
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println("prior", time.Since(began), m.HeapAlloc>>20, len(prior.tokens), len(prior.contexts), len(prior.grams), len(prior.spelling))
		for k := range prior.met { fmt.Println(k, prior.met[k], prior.discounts(k)) }
	}
	for _, f := range strings.Fields(os.Getenv("DOCS")) {
		text, err := os.ReadFile(f)
		if err != nil { t.Fatal(err) }
		text = text[:min(len(text),40<<10)]
		g := newNGram(prior)
		bits := 0.
		at := 0
		for i := 0; i < len(text); {
			n := tokenSize(text[i:])
			token := string(text[i : i+n])
			context := lastTokensOf(text[:i])
			p := 0.
			own := g.own.at(context)
			p = g.own.probability(own, token)
			if prior != nil {
				pk := prior.at(context)
				of := g.share(context, own, pk)
				w := of.own / (of.own + of.prior)
				p = w*p + (1-w)*prior.probability(pk, token)
			}
			if i >= 20<<10 { bits -= math.Log2(p); at += n }
			i += n
			g.learn(text[:i], nil)
		}
		fmt.Printf("%s %.3f\n", f, bits/float64(at))
		for k := range g.own.met { if os.Getenv("V")!="" {fmt.Println(k, g.own.met[k], g.own.discounts(k)) }}
	}
}

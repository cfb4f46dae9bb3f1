// Command clustersim simulates many servers with one database and one object store. It shows the
// load on servers, database and object store, and what fails first as the load grows. It also shows
// what happens when a rack of servers is lost. The simulation runs no code of lmserve. The costs of
// single steps were measured (see type costs); all other numbers are assumptions that flags can
// change.
//
//	cd tools/clustersim && go run .
//	cd tools/clustersim && go run . -model swift -rate 1e6
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

func main() {
	c := defaults()
	model := flag.String("model", "default", "model of the sessions: default or swift")
	flag.IntVar(&c.nodes, "nodes", c.nodes, "servers")
	flag.IntVar(&c.cores, "cores", c.cores, "number of processor cores per server")
	flag.IntVar(&c.sessions, "sessions", c.sessions, "number of sessions in the database")
	flag.Float64Var(&c.rate, "rate", c.rate, "requests per second to all servers together")
	flag.IntVar(&c.bytes, "bytes", c.bytes, "number of bytes of text per request")
	flag.IntVar(&c.databaseCores, "database-cores", c.databaseCores, "number of processor cores "+
		"of the database")
	flag.IntVar(&c.rack, "rack", c.rack, "number of servers that fail at the same time")
	flag.Float64Var(&c.seconds, "seconds", c.seconds, "simulated time in seconds")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the random numbers")
	flag.Parse()
	costs, ok := models[*model]
	if !ok {
		fmt.Fprintf(os.Stderr, "clustersim: -model is %q, expected default or swift\n", *model)
		os.Exit(2)
	}
	c.costs = costs
	if err := c.check(); err != nil {
		fmt.Fprintln(os.Stderr, "clustersim:", err)
		os.Exit(2)
	}
	report(os.Stdout, c)
}

func report(w io.Writer, c cluster) {
	fmt.Fprintf(w, "%d servers of %d cores, %d sessions, %.0f requests a second of %d bytes, a "+
		"database of %d cores\n\n",
		c.nodes, c.cores, c.sessions, c.rate, c.bytes, c.databaseCores)
	s := newSimulation(c)
	s.run()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "seconds\trequests/s\tp50 ms\tp99 "+
		"ms\tclaims/s\trefused/s\tdatabase\tservers\tobjects GB/s\t\n")
	for i, p := range s.phases {
		what := fmt.Sprintf("%.0f to %.0f", p.from, p.to)
		if i == 1 {
			what = fmt.Sprintf("%d servers lost: %s", c.rack, what)
		}
		row(t, what, s, p)
	}
	t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintf(t, "load\trequests/s\tp50 ms\tp99 "+
		"ms\tclaims/s\trefused/s\tdatabase\tservers\tobjects GB/s\t\n")
	for _, load := range []float64{.5, 1, 1.25, 1.5, 2, 3} {
		at := c
		at.rate, at.rack = c.rate*load, 0
		s := newSimulation(at)
		s.run()
		row(t, fmt.Sprintf("%g x", load), s, s.phases[len(s.phases)-1])
	}
	t.Flush()
}

func row(w io.Writer, what string, s *simulation, p *phase) {
	seconds := p.to - p.from
	fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f %%\t%.0f %%\t%.1f\t\n", what,
		float64(p.waits.count())/seconds, p.waits.quantile(.5)*1e3, p.waits.quantile(.99)*1e3,
		float64(p.claims)/seconds, float64(p.refused)/seconds,
		100*p.databaseBusy/seconds/float64(s.c.databaseCores),
		100*p.serversBusy/seconds/float64(s.c.nodes*s.c.cores), p.objectBytes/seconds/1e9)
}

package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/lab/bench"
)

func newBench() *cobra.Command {
	var flags modelFlags
	var config string
	var asJSON bool
	o := bench.Options{}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine's limits, and compare lmserve with them",
		Long: `Measure the limits of this machine (multiply-adds and bytes of memory per second) and
compare lmserve with them: every kernel with the model's shapes, a chunk without and
with adaptation, a training step, a decoded token, and concurrent sessions. The limits
are measured again for every row, because machines are shared and change their clock
rates. Data in the processor's caches may be faster than the limit of memory.`,
		Example: "  lmserve bench\n  lmserve bench --config enwik8-12l --only limits,chunks",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			o.Threads = flags.threads
			if err := o.Validate(); err != nil {
				return usageError{err}
			}
			p := newProgressOf(c, "bench", "measurement")
			defer p.end()
			p.say("the model")
			m, err := benchModel(c.Context(), flags, config)
			if err != nil {
				return err
			}
			o.Progress = func(what string, done, total int) {
				p.say(what)
				p.set(int64(done), int64(total))
			}
			report, err := bench.Run(c.Context(), m, o)
			p.end()
			if err != nil {
				return err
			}
			return printed(c.OutOrStdout(), report, asJSON, printBench)
		},
	}
	flags.register(c)
	c.Flags().StringVar(&config, "config", "",
		"configuration to measure with random weights, instead of a model: "+configUsage())
	c.Flags().IntVar(&o.Chunk, "chunk", 0,
		"tokens between two updates of the fast weights (default: the model's)")
	c.Flags().Float64Var(&o.Seconds, "seconds", bench.SecondsDefault,
		"duration of each row's measurement in seconds; less is quicker and noisier")
	c.Flags().StringSliceVar(&o.Only, "only", bench.Sections(), "sections to measure")
	c.Flags().BoolVar(&asJSON, "json", false, "output as JSON instead of tables")
	return c
}

func benchModel(ctx context.Context, flags modelFlags, config string) (*model.Model, error) {
	if config == "" {
		return flags.load()
	}
	if flags.path != "" {
		return nil, usagef("--model and --config are both given, expected one of them")
	}
	name, c, err := readConfig(ctx, config, 0)
	if err != nil {
		return nil, err
	}
	m, err := bench.RandomModel(name, c)
	if err != nil {
		return nil, usagef("--config %s: %w", config, err)
	}
	return flags.use(m)
}

func printBench(w io.Writer, r bench.Report) error {
	fmt.Fprintf(w, "%s, %d cores; %s, %s, peak of %s\n", r.Processor, r.Cores, r.Go, r.Numerics,
		r.Peak)
	fmt.Fprintf(w, "%s: %d weights, %d fast weights, banks %d, chunk %d, memory %d\n", r.Model,
		r.Weights, r.FastWeights, r.Banks, r.Chunk, r.Memory)
	fmt.Fprintf(w, "memory: %s of weights; a session %s, without adaptation %s; "+
		"%s for each session that computes\n", megabytes(r.Bytes.Weights),
		megabytes(r.Bytes.Session),
		megabytes(r.Bytes.Static), megabytes(r.Bytes.Worker))
	what, shape := 0, 0
	for _, row := range r.Rows {
		what, shape = max(what, utf8.RuneCountInString(row.What)),
			max(shape, utf8.RuneCountInString(row.Shape))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	section := ""
	for _, row := range r.Rows {
		if row.Section != section {
			section = row.Section
			fmt.Fprintf(t, "\n%-*s\t%-*s\tthreads\ttime\tachieved\tlimit\t%-7s\tof limit\tx "+
				"limit\t\n", what, section, shape, "", "")
		}
		fmt.Fprintf(t, "%-*s\t%-*s\t%d\t", what, row.What, shape, row.Shape, row.Threads)
		if section == bench.Limits {
			fmt.Fprintf(t, "\t%s\t\t%-7s\t\t\t  %s\n", digits(row.Achieved), row.Unit, row.Note)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%-7s\t%.0f %%\t%.2f\t  %s\n", short(row.Seconds),
			digits(row.Achieved), digits(row.Limit), row.Unit,
			100*row.OfLimit, 1/row.OfLimit, row.Note)
	}
	return t.Flush()
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func short(seconds float64) string {
	d, unit := time.Duration(seconds*float64(time.Second)), time.Nanosecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

func digits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

package main

import (
	"fmt"
	"image/color"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A measured is a quantity that the table and the figure show in percent. Of returns it as a
// fraction.
type measured struct {
	Name string
	Of   func(score) float64
}

var measures = []measured{
	{"accuracy", func(s score) float64 { return s.Accuracy }},
	{"perseveration error", func(s score) float64 { return s.Perseveration }},
	{"interference error", score.Interference},
}

// gather returns the mean of a measure over seeds and half of the measure's range, both in percent.
func gather(rows []row, method string, stream int, m measured) (mean, spread float64) {
	lo, hi, n := math.Inf(1), math.Inf(-1), 0.
	for _, r := range rows {
		if r.Method == method {
			v := 100 * m.Of(r.Scores[stream])
			mean, n, lo, hi = mean+v, n+1, min(lo, v), max(hi, v)
		}
	}
	return mean / n, (hi - lo) / 2
}

func names(rows []row) (all []string) {
	for _, name := range []string{nameMeta, nameOnline, namePre, nameOffline} {
		for _, r := range rows {
			if r.Method == name {
				all = append(all, name)
				break
			}
		}
	}
	return all
}

func table(data string, o options, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Online Cifar, %s, filters / %d, %d rounds of training, %d tasks a stream.\n",
		data, o.narrow, o.rounds, o.tasks)
	fmt.Fprintf(&b, "Percent: mean of the seeds ± half their range.\n")
	before := measured{"error on the same labels a task before",
		func(s score) float64 { return 1 - s.Before }}
	for _, m := range append(measures[:len(measures):len(measures)], before) {
		fmt.Fprintf(&b, "\n| %s |", m.Name)
		for _, l := range testLengths {
			fmt.Fprintf(&b, " %v |", l)
		}
		fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---|", len(testLengths)))
		for _, name := range names(rows) {
			fmt.Fprintf(&b, "| %s |", name)
			for i := range testLengths {
				mean, spread := gather(rows, name, i, m)
				fmt.Fprintf(&b, " %.1f ± %.1f |", mean, spread)
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString("\n| chosen on the dev stream | seed | round | rate | dev accuracy |\n" +
		"|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %g | %.1f |\n", r.Method, r.Seed, r.Best, r.Rate,
			100*r.Dev)
	}
	return b.String()
}

var palette = []color.Color{
	color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}, color.RGBA{G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, color.RGBA{G: 0x9e, B: 0x73, A: 0xff},
}

// figure writes onlinecifar.svg, with one panel for each measure, like figure 4 of the paper.
func figure(dir string, rows []row) error {
	const width = 9 * vg.Millimeter / 2
	panels := [][]*plot.Plot{nil}
	for k, m := range measures {
		p := plot.New()
		p.Title.Text, p.X.Label.Text, p.Y.Label.Text = m.Name, "rounds of a task", "%"
		p.Y.Min = 0
		for i, name := range names(rows) {
			var values plotter.Values
			for stream := range testLengths {
				mean, _ := gather(rows, name, stream, m)
				values = append(values, mean)
			}
			bars, err := plotter.NewBarChart(values, width)
			if err != nil {
				return err
			}
			bars.Color, bars.LineStyle.Width = palette[i], 0
			bars.Offset = width * vg.Length(float64(i)-float64(len(names(rows))-1)/2)
			p.Add(bars)
			if k == 0 {
				p.Legend.Add(name, bars)
			}
		}
		if k == 0 {
			p.Legend.Top, p.Legend.Left = true, true
			p.Y.Max = 125 // leaves space for the legend
		}
		var labels []string
		for _, l := range testLengths {
			labels = append(labels, l.String())
		}
		p.NominalX(labels...)
		panels[0] = append(panels[0], p)
	}
	canvas := vgsvg.New(30*vg.Centimeter, 9*vg.Centimeter)
	tiles := draw.Tiles{Rows: 1, Cols: len(measures), PadX: 5 * vg.Millimeter}
	for k, c := range plot.Align(panels, tiles, draw.New(canvas))[0] {
		panels[0][k].Draw(c)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "onlinecifar.svg"))
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// timeRounds measures the time of a round on random images of CIFAR's size. It prints this time and
// an estimate for the whole experiment.
func timeRounds(o options) error {
	r := rand.New(rand.NewPCG(1, 9))
	image := func() []byte {
		b := make([]byte, 3*cifarSide*cifarSide)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	images, labels := make([][]byte, batchSize), make([]int, batchSize)
	for i := range images {
		images[i], labels[i] = image(), i%labelCount
	}
	now := round{(&set{side: cifarSide}).batch(images), labels}
	net := newNetwork(o.narrow, labelCount, r)
	m, err := newMeta(net.copy(), paper(float32(o.out), o.metaRate), o.rate, false, 1)
	if err != nil {
		return err
	}
	defer m.close()
	const count = 3 // number of rounds in one cycle of Algorithm 1
	var perRound [2]float64
	for i, m := range []method{m, newTuner(net, o.rate, false, false)} {
		start := time.Now()
		for range count {
			if _, err := m.learn(now); err != nil {
				return err
			}
		}
		perRound[i] = time.Since(start).Seconds() / count
		fmt.Printf("%s, filters / %d: %.2f s a round of %d images\n",
			[]string{nameMeta, "baseline"}[i], o.narrow, perRound[i], batchSize)
	}
	rounds := 0.
	for _, l := range testLengths {
		rounds += float64(o.tasks) * float64(l.Lo+l.Hi) / 2
	}
	dev := float64(o.rounds/o.every*o.devTasks) * float64(trainLength.Lo+trainLength.Hi) / 2
	train := float64(o.rounds)
	hours := perRound[0]*(train+dev+rounds) + perRound[1]*(2*train+3*dev+3*rounds)
	fmt.Printf("a seed of %d rounds and %d tasks a stream: about %.1f hours\n",
		o.rounds, o.tasks, hours/3600)
	return nil
}

package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// summary returns the mean accuracy and its standard deviation over seeds, in percent. With a
// single seed, the deviation is 0.
func summary(results []result, shot int) (mean, spread float64) {
	var all []float64
	for _, r := range results {
		all = append(all, 100*r.Accuracy[shot])
	}
	mean, spread = stat.MeanStdDev(all, nil)
	if math.IsNaN(spread) {
		spread = 0
	}
	return mean, spread
}

func table(chosen []method, results [][]result) string {
	var b strings.Builder
	b.WriteString("| method | 1 shot | 2 shots | 3 shots |\n| --- | ---: | ---: | ---: |\n")
	for i, m := range chosen {
		fmt.Fprintf(&b, "| %s |", m.Name)
		for k := range shots {
			mean, spread := summary(results[i], k)
			fmt.Fprintf(&b, " %.1f ± %.1f |", mean, spread)
		}
		b.WriteString("\n")
	}
	return b.String()
}

type curve struct {
	plotter.XYs
	plotter.YErrors
}

// draw plots the accuracy against the number of shots, in the file accuracy.svg.
func draw(dir string, chosen []method, results [][]result) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	p := plot.New()
	p.Title.Text = "The missing word, one of five"
	p.X.Label.Text, p.Y.Label.Text = "sentences of each word", "right answers, %"
	p.X.Min, p.X.Max, p.Y.Min = .9, shots+1.5, 0
	p.X.Tick.Marker = plot.ConstantTicks{{Value: 1, Label: "1"}, {Value: 2, Label: "2"},
		{Value: 3, Label: "3"}}
	for i, m := range chosen {
		var c curve
		for k := range shots {
			mean, spread := summary(results[i], k)
			c.XYs = append(c.XYs, plotter.XY{X: float64(k + 1), Y: mean})
			c.YErrors = append(c.YErrors, struct{ Low, High float64 }{spread, spread})
		}
		line, err := plotter.NewLine(c)
		if err != nil {
			return err
		}
		bars, err := plotter.NewYErrorBars(c)
		if err != nil {
			return err
		}
		line.Color, line.Dashes = plotutil.Color(i%7), plotutil.Dashes(i/7)
		line.Width = vg.Points(1.5)
		bars.Color = line.Color
		p.Add(line, bars)
		p.Legend.Add(m.Name, line)
	}
	p.Legend.Top, p.Legend.Padding = true, vg.Points(5)
	p.Add(plotter.NewGrid())
	p.BackgroundColor = color.White
	return p.Save(7*vg.Inch, 4.5*vg.Inch, filepath.Join(dir, "accuracy.svg"))
}

package main

import (
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

type rows struct {
	method string
	seeds  []result
}

func (r rows) window(w int) (mean, lo, hi float64) {
	return spread(r.seeds, func(x result) float64 { return x.curve[w] })
}

func (r rows) length(f int) (mean, lo, hi float64) {
	return spread(r.seeds, func(x result) float64 { return x.lengths[f].wrong() })
}

func spread(all []result, f func(result) float64) (mean, lo, hi float64) {
	var values []float64
	for _, r := range all {
		values = append(values, f(r))
		mean += f(r) / float64(len(all))
	}
	return mean, slices.Min(values), slices.Max(values)
}

func table(w io.Writer, k task, all []rows) {
	fmt.Fprintf(w, "\n| %s | parameters | bits a sequence, at the end |", k.name)
	for _, f := range factors {
		fmt.Fprintf(w, " wrong bits, length %d |", f*k.max)
	}
	fmt.Fprintf(w, "\n|---|---|---|%s\n", strings.Repeat("---|", len(factors)))
	for _, r := range all {
		mean, lo, hi := r.window(windows - 1)
		fmt.Fprintf(w, "| %s | %d | %.2f (%.2f to %.2f) |", r.method, r.seeds[0].params, mean,
			lo, hi)
		for f := range factors {
			mean, lo, hi := r.length(f)
			fmt.Fprintf(w, " %.1f %% (%.1f to %.1f) |", mean, lo, hi)
		}
		fmt.Fprintln(w)
	}
}

// colors are the colors of the methods in the figure. People with color blindness can also
// distinguish them (Okabe and Ito).
var colors = []color.RGBA{
	{0x00, 0x00, 0x00, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
	{0x00, 0x9e, 0x73, 0xff}, {0xd5, 0x5e, 0x00, 0xff},
}

func figure(dir string, k task, all []rows) error {
	left, right := plot.New(), plot.New()
	left.Title.Text, right.Title.Text = k.name+": learning", k.name+": longer sequences"
	left.X.Label.Text, left.Y.Label.Text = "sequences seen (thousands)", "bits of error a sequence"
	right.X.Label.Text, right.Y.Label.Text = "items of a sequence", "wrong bits (%)"
	left.X.Min, left.Y.Min, right.Y.Min, right.Y.Max = 0, 0, 0, 50
	var lengths plot.ConstantTicks
	for _, f := range factors {
		length := f * k.max
		lengths = append(lengths, plot.Tick{Value: float64(length), Label: fmt.Sprint(length)})
	}
	right.X.Tick.Marker = lengths
	left.Legend.Top = true
	for i, r := range all {
		c := colors[i%len(colors)]
		line, err := addSeries(left, c, windows, func(w int) (x, mean, lo, hi float64) {
			mean, lo, hi = r.window(w)
			return float64((w+1)*k.sequences) / windows / 1000, mean, lo, hi
		})
		if err != nil {
			return err
		}
		left.Legend.Add(r.method, line)
		_, err = addSeries(right, c, len(factors), func(f int) (x, mean, lo, hi float64) {
			mean, lo, hi = r.length(f)
			return float64(factors[f] * k.max), mean, lo, hi
		})
		if err != nil {
			return err
		}
	}
	canvas := vgsvg.New(24*vg.Centimeter, 9*vg.Centimeter)
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter,
		PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 4}
	places := plot.Align([][]*plot.Plot{{left, right}}, tiles, draw.New(canvas))
	left.Draw(places[0][0])
	right.Draw(places[0][1])
	file, err := os.Create(filepath.Join(dir, "memory-"+k.name+".svg"))
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

func addSeries(p *plot.Plot, c color.RGBA, n int, at func(i int) (x, mean, lo, hi float64)) (
	*plotter.Line, error) {
	var means, band, above plotter.XYs
	for i := range n {
		x, mean, lo, hi := at(i)
		means = append(means, plotter.XY{X: x, Y: mean})
		band = append(band, plotter.XY{X: x, Y: lo})
		above = append(above, plotter.XY{X: x, Y: hi})
	}
	slices.Reverse(above)
	area, err := plotter.NewPolygon(append(band, above...))
	if err != nil {
		return nil, err
	}
	area.Color = color.NRGBA{c.R, c.G, c.B, 0x30}
	area.LineStyle.Width = 0
	line, err := plotter.NewLine(means)
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = c, vg.Points(1.5)
	p.Add(area, line)
	return line, nil
}

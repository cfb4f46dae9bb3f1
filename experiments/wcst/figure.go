package main

import (
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// drawFigure writes two panels as SVG: the updates until a rule is found, and the perseveration
// errors. The x axis is the number of the rule. The band around each curve is one standard
// deviation over seeds.
func drawFigure(file string, methods []method, results [][][]task) error {
	updates, errors := plot.New(), plot.New()
	updates.Title.Text, updates.Y.Label.Text = "Updates until the rule is found", "updates"
	errors.Title.Text, errors.Y.Label.Text = "Perseveration errors", "errors"
	for i, m := range methods {
		var u, e []spread
		for n := range results[i][0] {
			s := tally(results[i], n, n+1)
			u, e = append(u, s.updates), append(e, s.errors)
		}
		if err := addCurve(updates, m.Name, u, plotutil.Color(i)); err != nil {
			return err
		}
		if err := addCurve(errors, m.Name, e, plotutil.Color(i)); err != nil {
			return err
		}
	}
	image := vgsvg.New(10*vg.Inch, 4*vg.Inch)
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: vg.Millimeter}
	canvases := plot.Align([][]*plot.Plot{{updates, errors}}, tiles, draw.New(image))
	for i, p := range []*plot.Plot{updates, errors} {
		p.X.Label.Text, p.Y.Min, p.Legend.Top, p.Legend.Left = "rule", 0, true, true
		p.Y.Max *= 1.4 // leave space for the legend above the curves
		p.Draw(canvases[0][i])
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := image.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func addCurve(p *plot.Plot, name string, s []spread, c color.Color) error {
	mean := make(plotter.XYs, len(s))
	band := make(plotter.XYs, 2*len(s))
	for i, v := range s {
		x := float64(i + 1)
		mean[i] = plotter.XY{X: x, Y: v.mean}
		band[i] = plotter.XY{X: x, Y: v.mean + v.deviation}
		band[len(band)-1-i] = plotter.XY{X: x, Y: max(0, v.mean-v.deviation)}
	}
	line, err := plotter.NewLine(mean)
	if err != nil {
		return err
	}
	area, err := plotter.NewPolygon(band)
	if err != nil {
		return err
	}
	r, g, b, _ := c.RGBA()
	area.Color = color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 50}
	area.LineStyle.Width = 0
	line.Color, line.Width = c, vg.Points(1.5)
	p.Add(area, line)
	p.Legend.Add(name, line)
	return nil
}

package report

import (
	"bytes"
	"html/template"
	"slices"

	"github.com/lmserve/lmserve/internal/lab/chart"
	"github.com/lmserve/lmserve/internal/learning/train"
)

// curvePoints is the most points of a curve: more are averaged.
const curvePoints = 100

// curves are what the metrics say of one phase, against its steps.
type curves struct {
	train, static, adaptive []chart.Point // in the unit of the run
	rate, slowRate          []chart.Point
	speed                   []chart.Point // in tokens a second
}

func curvesOf(lines []Metric, phase string) curves {
	var c curves
	for _, l := range lines {
		if l.Phase != phase {
			continue
		}
		at := func(v float64) chart.Point { return chart.Point{X: float64(l.Step), Y: v} }
		switch l.Event {
		case eventStep:
			c.train, c.rate = append(c.train, at(l.Loss*train.BitsPerNat)), append(c.rate, at(l.Rate))
			c.speed = append(c.speed, at(l.TokensPerSec))
			if l.SlowRate > 0 {
				c.slowRate = append(c.slowRate, at(l.SlowRate))
			}
		case eventValid:
			c.static = append(c.static, at(l.Static))
			if l.Adaptive > 0 {
				c.adaptive = append(c.adaptive, at(l.Adaptive))
			}
		}
	}
	return c
}

// charts are the curves as inline SVG. The first steps, whose losses are far above all others, are
// left out of the training curve.
func (c curves) charts(unit train.Unit) ([]template.HTML, error) {
	late := c.train[len(c.train)/20:]
	rates := []chart.Line{{Name: "learning rate", Points: c.rate}}
	if len(c.slowRate) > 0 {
		rates = []chart.Line{{Name: "slow weights", Points: c.slowRate}, {Name: "meta-learners", Points: c.rate}}
	}
	var all []template.HTML
	for _, one := range []struct {
		title, y string
		lines    []chart.Line
	}{
		{unit.Bits, "bits", []chart.Line{
			{Name: "valid, static", Points: c.static}, {Name: "valid, adaptive", Points: c.adaptive}, {Name: "training", Points: late}}},
		{"learning rate", "rate", rates},
		{"speed", "tokens/s", []chart.Line{{Name: "training", Points: c.speed}}},
	} {
		lines := slices.DeleteFunc(one.lines, func(l chart.Line) bool { return len(l.Points) == 0 })
		if len(lines) == 0 {
			continue
		}
		for i := range lines {
			lines[i].Points = thinned(lines[i].Points)
		}
		c := chart.Chart{Title: one.title, X: chart.Axis{Label: "steps"}, Y: chart.Axis{Label: one.y}, Lines: lines}
		svg, err := c.SVG()
		if err != nil {
			return nil, err
		}
		// The first lines, which are XML's own, have no place in a page.
		all = append(all, template.HTML(svg[bytes.Index(svg, []byte("<svg")):]))
	}
	return all, nil
}

// thinned are the points, or the means of as many runs of them as a curve has points.
func thinned(points []chart.Point) []chart.Point {
	if len(points) <= curvePoints {
		return points
	}
	means := make([]chart.Point, curvePoints)
	for i := range means {
		part := points[len(points)*i/curvePoints : len(points)*(i+1)/curvePoints]
		for _, p := range part {
			means[i].X += p.X / float64(len(part))
			means[i].Y += p.Y / float64(len(part))
		}
	}
	return means
}

package report

import (
	"bytes"
	"html/template"
	"slices"
	"time"

	"github.com/lmserve/lmserve/internal/lab/chart"
	"github.com/lmserve/lmserve/internal/learning/train"
)

const curvePoints = 100

type curves struct {
	train, static, adaptive []chart.Point // losses in bits per token
	rate, slowRate          []chart.Point
	speed                   []chart.Point // tokens per second
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
			c.train, c.rate = append(c.train, at(l.Loss*train.BitsPerNat)),
				append(c.rate, at(l.Rate))
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

// charts returns the curves as inline SVG. The training curve leaves out the first steps, whose
// losses are far above all others.
func (c curves) charts(unit train.Unit) ([]template.HTML, error) {
	late := c.train[len(c.train)/20:]
	rates := []chart.Line{{Name: "learning rate", Points: c.rate}}
	if len(c.slowRate) > 0 {
		rates = []chart.Line{{Name: "slow weights", Points: c.slowRate}, {Name: "meta-learners",
			Points: c.rate}}
	}
	var all []template.HTML
	for _, one := range []struct {
		title, y string
		lines    []chart.Line
	}{
		{unit.Bits, "bits", []chart.Line{
			{Name: "valid, static", Points: c.static}, {Name: "valid, adaptive",
				Points: c.adaptive}, {Name: "training", Points: late}}},
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
		c := chart.Chart{Title: one.title, X: chart.Axis{Label: "steps"},
			Y: chart.Axis{Label: one.y}, Lines: lines}
		svg, err := c.SVG()
		if err != nil {
			return nil, err
		}
		// An HTML page needs only the svg element, without the header of the XML file.
		all = append(all, template.HTML(svg[bytes.Index(svg, []byte("<svg")):]))
	}
	return all, nil
}

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

// ofRun returns the lines of the last run, which begins with the phase first. A metrics file may
// also have lines of earlier runs.
func ofRun(lines []Metric, first string) []Metric {
	for i := len(lines) - 1; i >= 0; i-- {
		if lines[i].Event == eventStart && lines[i].Phase == first {
			return lines[i:]
		}
	}
	return lines
}

// current returns the lines of a run that later lines have not replaced. The parameter phases lists
// the run's phases in order. A run that resumes a phase at a step writes the later steps and phases
// again. The new lines then replace the old lines.
func current(lines []Metric, phases []string) []Metric {
	var now []Metric
	for _, line := range lines {
		order := slices.Index(phases, line.Phase)
		if order < 0 {
			continue
		}
		if line.Event == eventStart || line.Event == eventResume {
			now = slices.DeleteFunc(now, func(old Metric) bool {
				was := slices.Index(phases, old.Phase)
				return was > order || was == order && (old.Step > line.Step ||
					line.Event == eventStart)
			})
		}
		now = append(now, line)
	}
	return now
}

// elapsed returns the time spent in each phase. The time between an interruption and the resumption
// does not count. Steps that were repeated after a resumption count twice.
func elapsed(lines []Metric) map[string]time.Duration {
	spent := map[string]time.Duration{}
	for i := 1; i < len(lines); i++ {
		if lines[i].Event != eventStart && lines[i].Event != eventResume {
			spent[lines[i].Phase] += lines[i].Time.Sub(lines[i-1].Time)
		}
	}
	return spent
}

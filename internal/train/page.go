package train

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/chart"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"bits":     func(v float64) string { return fmt.Sprintf("%.4f", v) },
	"adaptive": func(v *Validation) string { return adaptiveText(v) },
	"count":    func(v any) string { return grouped(fmt.Sprint(v)) },
	"time":     func(d time.Duration) string { return roundly(d) },
}).Parse(pageText))

// curvePoints is the most points of a curve: more are averaged.
const curvePoints = 100

// page is what page.html shows.
type page struct {
	Name        string
	Report      Report
	Interrupted *InterruptedError
	Phases      []pagePhase
	Recipe      []recipeSection
	Store       string
	Numerics    string
}

// pagePhase is one phase on the page.
type pagePhase struct {
	PhaseReport
	Elapsed time.Duration // over all sittings
	Charts  []template.HTML
}

// BPC is the running training loss at the end.
func (p pagePhase) BPC() float64 { return p.Loss * bitsPerNat }

// recipeSection is a part of the run's record, flattened.
type recipeSection struct {
	Title string
	Rows  []recipeRow
}

type recipeRow struct{ Field, Value string }

// writePage makes the page of a run that has ended or was interrupted.
func (r *run) writePage(report Report, interrupted *InterruptedError) error {
	if r.o.Report == "" {
		return nil
	}
	text, err := r.page(report, interrupted)
	if err == nil {
		err = atomicfile.Write(r.o.Report, atomicfile.Options{}, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("train: the report %s could not be written: %w", r.o.Report, err)
	}
	return nil
}

func (r *run) page(report Report, interrupted *InterruptedError) ([]byte, error) {
	p := page{Name: r.o.Name, Report: report, Interrupted: interrupted, Store: r.o.Store, Numerics: r.base.Arithmetic.Numerics()}
	lines := ofRun(r.metrics.lines, r.o.Phases[0])
	spent := elapsed(lines)
	now := current(lines, r.o.Phases)
	for _, phase := range report.Phases {
		c := curvesOf(now, phase.Phase)
		charts, err := c.charts()
		if err != nil {
			return nil, err
		}
		p.Phases = append(p.Phases, pagePhase{phase, spent[phase.Phase], charts})
	}
	var err error
	if p.Recipe, err = recipe(r.record); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = pageTemplate.Execute(&out, p)
	return out.Bytes(), err
}

// curves are what the metrics say of one phase, against its steps.
type curves struct {
	train, static, adaptive []chart.Point // bits a character
	rate, slowRate          []chart.Point
	speed                   []chart.Point // tokens a second
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
			c.train, c.rate, c.speed = append(c.train, at(l.BPC)), append(c.rate, at(l.Rate)), append(c.speed, at(l.TokensPerSec))
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

// charts are the curves as inline SVG. The first steps, whose losses are far above all others, are left out of the training curve.
func (c curves) charts() ([]template.HTML, error) {
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
		{"bits per character", "bits", []chart.Line{
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
		svg, err := chart.Chart{Title: one.title, X: chart.Axis{Label: "steps"}, Y: chart.Axis{Label: one.y}, Lines: lines}.SVG()
		if err != nil {
			return nil, err
		}
		all = append(all, template.HTML(svg[bytes.Index(svg, []byte("<svg")):])) // without XML's own first lines
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

// recipe is the run's record as tables: its plain fields, then a table for each group of them.
func recipe(record runRecord) ([]recipeSection, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	all, err := decodeAny(text)
	if err != nil {
		return nil, err
	}
	sections := []recipeSection{{Title: "run"}}
	fields := all.(map[string]any)
	for _, key := range sortedKeys(fields) {
		group, nested := fields[key].(map[string]any)
		if !nested {
			sections[0].Rows = append(sections[0].Rows, recipeRow{key, showPlain(fields[key])})
			continue
		}
		s := recipeSection{Title: key}
		s.add("", group)
		sections = append(sections, s)
	}
	return sections, nil
}

func (s *recipeSection) add(prefix string, fields map[string]any) {
	for _, key := range sortedKeys(fields) {
		if group, nested := fields[key].(map[string]any); nested {
			s.add(prefix+key+".", group)
		} else {
			s.Rows = append(s.Rows, recipeRow{prefix + key, showPlain(fields[key])})
		}
	}
}

// showPlain is a plain value or a list of some as a person writes it.
func showPlain(v any) string {
	if list, ok := v.([]any); ok {
		words := make([]string, len(list))
		for i, e := range list {
			words[i] = showPlain(e)
		}
		return strings.Join(words, ", ")
	}
	if text, ok := v.(string); ok {
		return text
	}
	return showJSON(v)
}

func adaptiveText(v *Validation) string {
	if v == nil || v.Adaptive == nil {
		return "–"
	}
	return fmt.Sprintf("%.4f", *v.Adaptive)
}

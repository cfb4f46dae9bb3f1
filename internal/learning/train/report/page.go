package report

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/lmserve/lmserve/internal/atomicfile"
	"github.com/lmserve/lmserve/internal/learning/train"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"adaptive": adaptiveText,
	"count":    countText,
	"time":     roundly,
}).Parse(pageText))

func countText(v any) string {
	switch v := v.(type) {
	case int:
		return humanize.Comma(int64(v))
	case int64:
		return humanize.Comma(v)
	}
	return fmt.Sprint(v)
}

func adaptiveText(u train.Unit, v *train.Measurement) string {
	if v == nil || v.Adaptive == nil {
		return "–"
	}
	return u.Text(*v.Adaptive)
}

// page writes the HTML page of a run when the run has ended or was interrupted.
type page struct {
	path    string // "" if no page is written
	metrics *metrics
	run     train.Opened
}

type pageContent struct {
	Name        string
	Unit        train.Unit
	Report      train.Report
	Interrupted *train.InterruptedError
	Phases      []pagePhase
	Recipe      []recipeSection
	Store       string
	Numerics    string
}

type pagePhase struct {
	train.PhaseReport
	Elapsed time.Duration // time spent in the phase, including interrupted attempts
	Charts  []template.HTML
}

// Observe checks, before the run, that the page can be written. After the run, Observe writes the
// page.
func (p *page) Observe(e train.Event) error {
	if p.path == "" {
		return nil
	}
	switch e := e.(type) {
	case train.Opened:
		p.run = e
		return train.CanWrite(p.path)
	case train.Finished:
		var interrupted *train.InterruptedError
		if e.Err == nil || errors.As(e.Err, &interrupted) {
			return p.write(e.Report, interrupted)
		}
	}
	return nil
}

func (p *page) write(report train.Report, interrupted *train.InterruptedError) error {
	text, err := p.render(report, interrupted)
	if err == nil {
		err = atomicfile.Write(p.path, atomicfile.Options{}, func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("train: the report %s could not be written: %w", p.path, err)
	}
	return nil
}

func (p *page) render(report train.Report, interrupted *train.InterruptedError) ([]byte, error) {
	phases := p.run.Phases
	content := pageContent{
		Name: p.run.Name, Unit: p.run.Unit, Recipe: recipe(p.run.Fields), Report: report,
		Interrupted: interrupted, Store: p.run.Store, Numerics: p.run.Numerics,
	}
	lines := ofRun(p.metrics.lines, phases[0])
	spent, now := elapsed(lines), current(lines, phases)
	for _, phase := range report.Phases {
		charts, err := curvesOf(now, phase.Phase).charts(p.run.Unit)
		if err != nil {
			return nil, err
		}
		content.Phases = append(content.Phases, pagePhase{phase, spent[phase.Phase], charts})
	}
	var out bytes.Buffer
	err := pageTemplate.Execute(&out, content)
	return out.Bytes(), err
}

type recipeSection struct {
	Title string
	Rows  []recipeRow
}

type recipeRow struct{ Field, Value string }

// recipe returns the run's recipe as tables. The first table has the plain fields. Each field that
// contains fields gets another table.
func recipe(fields map[string]any) []recipeSection {
	sections := []recipeSection{{Title: "run"}}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		group, nested := fields[key].(map[string]any)
		if !nested {
			sections[0].Rows = append(sections[0].Rows, recipeRow{key, showPlain(fields[key])})
			continue
		}
		s := recipeSection{Title: key}
		s.add("", group)
		sections = append(sections, s)
	}
	return sections
}

func (s *recipeSection) add(prefix string, fields map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if group, nested := fields[key].(map[string]any); nested {
			s.add(prefix+key+".", group)
		} else {
			s.Rows = append(s.Rows, recipeRow{prefix + key, showPlain(fields[key])})
		}
	}
}

func showPlain(v any) string {
	if list, ok := v.([]any); ok {
		words := make([]string, len(list))
		for i, e := range list {
			words[i] = showPlain(e)
		}
		return strings.Join(words, ", ")
	}
	if v == nil {
		return "not set"
	}
	return fmt.Sprint(v)
}

// Package chart draws lines over a common axis as SVG or PNG. Lines are told apart by colour and by
// dashes, so that a chart can be read when it is printed in grey, and by the colour-blind.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is what to draw. A chart may have MaxLines lines at most: more would look like others.
type Chart struct {
	Title string
	X, Y  Axis
	Lines []Line
}

// Axis is one axis of a chart. Its range is that of the lines.
type Axis struct {
	Label string
	Log   bool   // logarithmic; needs Ticks
	Ticks []Tick // marks of the axis; nil means round numbers
}

// Tick is a mark on an axis and its label.
type Tick struct {
	Value float64
	Label string
}

// Line joins points from left to right.
type Line struct {
	Name   string
	Points []Point
}

// Point is a point of a line. Both numbers are finite, and above 0 on a logarithmic axis.
type Point struct{ X, Y float64 }

// MaxLines is the number of styles, and so of lines that can be told apart.
const MaxLines = len(styles)

// styles have the colours of Okabe and Ito (2008), which the colour-blind can tell apart, in an
// order in which neighbours differ in grey too.
var styles = [...]struct {
	color  color.RGBA
	dashes []vg.Length
}{
	{color.RGBA{A: 0xff}, []vg.Length{6, 3}},
	{color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}, nil},
	{color.RGBA{G: 0x72, B: 0xb2, A: 0xff}, []vg.Length{10, 3, 2, 3}},
	{color.RGBA{R: 0xe6, G: 0x9f, A: 0xff}, []vg.Length{2, 2}},
	{color.RGBA{G: 0x9e, B: 0x73, A: 0xff}, []vg.Length{12, 4}},
	{color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, []vg.Length{4, 2, 1, 2, 1, 2}},
}

// Size of a chart on paper, and pixels per inch of a PNG: legible at the width of a page.
const (
	width, height = 8 * vg.Inch, 4.5 * vg.Inch
	dpi           = 192
	textSize      = 13
	margin        = 10
)

// CheckFile returns an error if Write cannot write a file of that name.
func CheckFile(path string) error {
	if ext := strings.ToLower(filepath.Ext(path)); ext != ".svg" && ext != ".png" {
		return fmt.Errorf("chart: %s: extension is %q, expected .svg or .png", path, ext)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("chart: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("chart: %s is a file, expected a directory for %s", dir, filepath.Base(path))
	}
	return nil
}

// Write draws the chart to a file, as SVG or PNG by its extension.
func (c Chart) Write(path string) error {
	if err := CheckFile(path); err != nil {
		return err
	}
	draw := c.SVG
	if strings.EqualFold(filepath.Ext(path), ".png") {
		draw = c.PNG
	}
	text, err := draw()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return nil
}

// SVG returns the chart as the text of an SVG.
func (c Chart) SVG() ([]byte, error) {
	canvas := vgsvg.New(width, height)
	text, err := c.render(canvas, canvas)
	// A viewer that has not the font Liberation Sans falls back to a font of the same widths, or at
	// least to one without serifs.
	return bytes.ReplaceAll(text, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), err
}

// PNG returns the chart as a PNG.
func (c Chart) PNG() ([]byte, error) {
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))}
	return c.render(canvas, canvas)
}

func (c Chart) render(canvas vg.CanvasSizer, out vg.CanvasWriterTo) ([]byte, error) {
	if err := c.draw(draw.New(canvas)); err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	var text bytes.Buffer
	if _, err := out.WriteTo(&text); err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	return text.Bytes(), nil
}

func (c Chart) draw(canvas draw.Canvas) error {
	if len(c.Lines) > MaxLines {
		return fmt.Errorf("%d lines, expected at most %d", len(c.Lines), MaxLines)
	}
	if !slices.ContainsFunc(c.Lines, func(l Line) bool { return len(l.Points) > 0 }) {
		return fmt.Errorf("nothing to draw: no line has a point")
	}
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text = c.Title
	p.Title.TextStyle.Font = sans(textSize + 1)
	p.Title.Padding = vg.Points(2 * textSize) // the legend stands between title and lines
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	lines := make([]*plotter.Line, len(c.Lines))
	for i, l := range c.Lines {
		var err error
		if lines[i], err = c.line(i); err != nil {
			return fmt.Errorf("line %s: %w", l.Name, err)
		}
		if len(l.Points) > 0 {
			p.Add(lines[i])
		}
	}
	c.X.apply(&p.X)
	c.Y.apply(&p.Y)
	canvas.FillPolygon(color.White, []vg.Point{canvas.Min, {X: canvas.Max.X, Y: canvas.Min.Y}, canvas.Max, {X: canvas.Min.X, Y: canvas.Max.Y}})
	inner := draw.Crop(canvas, margin, -margin, margin, -margin)
	p.Draw(inner)
	c.drawLegend(draw.Crop(inner, 0, 0, 0, -vg.Points(1.7*textSize)), lines)
	return nil
}

// drawLegend puts the names side by side along the top.
func (c Chart) drawLegend(canvas draw.Canvas, lines []*plotter.Line) {
	for i, l := range c.Lines {
		legend := plot.NewLegend()
		legend.Top, legend.Left = true, true
		legend.ThumbnailWidth = vg.Points(28)
		legend.TextStyle.Font = sans(textSize - 1)
		legend.Add(l.Name, lines[i])
		legend.Draw(canvas)
		canvas.Min.X += legend.ThumbnailWidth + legend.TextStyle.Width(l.Name) + vg.Points(1.5*textSize)
	}
}

// line returns the i-th line, each point at its place on the axes (see Axis.at).
func (c Chart) line(i int) (*plotter.Line, error) {
	l := &plotter.Line{LineStyle: draw.LineStyle{Color: styles[i].color, Dashes: styles[i].dashes, Width: vg.Points(1.8)}}
	for _, p := range c.Lines[i].Points {
		x, y := c.X.at(p.X), c.Y.at(p.Y)
		if err := plotter.CheckFloats(x, y); err != nil {
			return nil, err
		}
		l.XYs = append(l.XYs, plotter.XY{X: x, Y: y})
	}
	return l, nil
}

// at returns the place of a value on the axis: the value, or its binary logarithm. The plotting
// library has a logarithmic scale, too, but it misplaces the label of the axis.
func (a Axis) at(v float64) float64 {
	if a.Log {
		return math.Log2(v)
	}
	return v
}

func (a Axis) apply(to *plot.Axis) {
	to.Label.Text = a.Label
	to.Label.TextStyle.Font = sans(textSize)
	to.Label.Padding = vg.Points(4)
	to.Padding = 0
	to.LineStyle.Color, to.Tick.LineStyle.Color = color.Gray{0x66}, color.Gray{0x66}
	to.Tick.Label.Font = sans(textSize - 1)
	ticks := plot.ConstantTicks{}
	for _, t := range a.Ticks {
		ticks = append(ticks, plot.Tick{Value: a.at(t.Value), Label: t.Label})
	}
	if a.Ticks == nil {
		ticks, to.Min, to.Max = round(to.Min, to.Max)
	}
	to.Tick.Marker = ticks
}

// round marks a range at four to nine round numbers and widens it to the outermost of them.
func round(from, to float64) (ticks plot.ConstantTicks, lo, hi float64) {
	if to <= from {
		from, to = from-0.5, to+0.5
	}
	power := math.Floor(math.Log10((to - from) / 4))
	step := math.Pow(10, power)
	for _, factor := range []float64{5, 2} {
		if (to-from)/(factor*step) >= 4 {
			step *= factor
			break
		}
	}
	first, last := math.Floor(from/step), math.Ceil(to/step)
	for k := first; k <= last; k++ {
		ticks = append(ticks, plot.Tick{Value: k * step, Label: strconv.FormatFloat(k*step, 'f', int(max(0, -power)), 64)})
	}
	return ticks, first * step, last * step
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
}

// Package chart draws lines over a common axis as SVG or PNG. Lines differ in color and in dashes,
// so that charts are readable in gray and with color blindness.
package chart

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Chart describes a chart of at most MaxLines lines.
type Chart struct {
	Title string
	X, Y  Axis
	Lines []Line
}

// Axis is one axis of a chart. The points of the lines determine its range.
type Axis struct {
	Label string
	Log   bool   // logarithmic scale; needs Ticks
	Ticks []Tick // marks of the axis; nil: round numbers
}

// Tick is a mark on an axis, with its label.
type Tick struct {
	Value float64
	Label string
}

// Line is a named line through points, in the order of X.
type Line struct {
	Name   string
	Points []Point
}

// Point is a point of a line. Both numbers must be finite, and above 0 on a logarithmic axis.
type Point struct{ X, Y float64 }

// MaxLines is the maximum number of lines in a chart: the number of distinguishable styles.
const MaxLines = len(styles)

// styles have the colors of Okabe and Ito (2008), which color-blind people can distinguish.
// Adjacent styles also differ in gray.
var styles = [...]struct {
	color  color.RGBA
	dashes []float64
}{
	{color.RGBA{A: 0xff}, []float64{6, 3}},
	{color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}, nil},
	{color.RGBA{G: 0x72, B: 0xb2, A: 0xff}, []float64{10, 3, 2, 3}},
	{color.RGBA{R: 0xe6, G: 0x9f, A: 0xff}, []float64{2, 2}},
	{color.RGBA{G: 0x9e, B: 0x73, A: 0xff}, []float64{12, 4}},
	{color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, []float64{4, 2, 1, 2, 1, 2}},
}

// CheckFile returns an error if Write cannot write a file with this path.
func CheckFile(path string) error {
	if ext := strings.ToLower(filepath.Ext(path)); ext != ".svg" && ext != ".png" {
		return fmt.Errorf("chart: %s: extension is %q, expected .svg or .png", path, ext)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("chart: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("chart: %s is a file, expected a directory for %s", dir,
			filepath.Base(path))
	}
	return nil
}

// Write draws the chart to a file, as SVG or PNG according to its extension.
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

// SVG returns the chart as SVG text.
func (c Chart) SVG() ([]byte, error) {
	p, err := c.picture()
	if err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	return p.svg(), nil
}

// PNG returns the chart as a PNG image.
func (c Chart) PNG() ([]byte, error) {
	p, err := c.picture()
	if err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	text, err := p.png()
	if err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	return text, nil
}

// at returns the position of a value on the axis: the value, or its binary logarithm.
func (a Axis) at(v float64) float64 {
	if a.Log {
		return math.Log2(v)
	}
	return v
}

// scaled returns an axis's ticks and range in positions on the axis. The parameter `places` holds
// the positions of the points.
func (a Axis) scaled(places []float64) (ticks []Tick, lo, hi float64) {
	lo, hi = slices.Min(places), slices.Max(places)
	if a.Ticks == nil {
		return round(lo, hi)
	}
	if lo == hi {
		lo, hi = lo-1, hi+1
	}
	for _, t := range a.Ticks {
		if v := a.at(t.Value); v >= lo && v <= hi {
			ticks = append(ticks, Tick{v, t.Label})
		}
	}
	return ticks, lo, hi
}

// round returns at least four ticks at round numbers, and the range from the first to the last
// tick.
func round(from, to float64) (ticks []Tick, lo, hi float64) {
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
		label := strconv.FormatFloat(k*step, 'f', int(max(0, -power)), 64)
		ticks = append(ticks, Tick{Value: k * step, Label: label})
	}
	return ticks, first * step, last * step
}

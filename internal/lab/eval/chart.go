package eval

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/lab/chart"
)

// Chart draws bits per byte, or the perplexity of words, against bytes or tokens. It has one line
// for each method. With ResetDocument, a point is the mean over one octave of tokens, such as 1024
// to 2048. This mean includes all documents that reach the end of the octave. With ResetNever, a
// point is the mean over a moving window of the stream.
func (r Result) Chart() chart.Chart {
	points := r.drawn()
	c := chart.Chart{Title: fmt.Sprintf("%s on %s", r.Model, r.extent()),
		Y: chart.Axis{Label: "bits per byte"}}
	if r.Words {
		c.Y.Label = "perplexity"
	}
	for k, method := range r.Methods {
		line := chart.Line{Name: method}
		for _, p := range points {
			if y := p.Bits()[k]; y != nil {
				line.Points = append(line.Points, chart.Point{X: r.place(p), Y: r.height(*y)})
			}
		}
		c.Lines = append(c.Lines, line)
	}
	c.X = chart.Axis{Label: r.windowLabel(points), Log: r.Reset == ResetDocument}
	if len(points) > 0 {
		c.X.Ticks = r.ticks(r.place(points[0]), r.place(points[len(points)-1]), c.X.Log)
	}
	return c
}

// place returns the position of a window on the axis. The position is the middle of an octave or,
// with ResetNever, the end of the window.
func (r Result) place(p Point) float64 {
	if r.Reset == ResetDocument {
		return math.Sqrt(float64(p.From) * float64(p.To))
	}
	return float64(p.To)
}

func (r Result) height(bits float64) float64 {
	if r.Words {
		return math.Exp2(bits)
	}
	return bits
}

// drawn returns the windows that at least a quarter of the documents reach. A mean over fewer
// documents is too noisy.
func (r Result) drawn() (points []Point) {
	for _, p := range r.Windows {
		if r.Reset == ResetNever || 4*p.Texts >= len(r.Documents) {
			points = append(points, p)
		}
	}
	return points
}

func (r Result) windowLabel(points []Point) string {
	unit := "bytes"
	if r.Words {
		unit = "tokens"
	}
	if len(points) == 0 {
		return unit + " seen"
	}
	last := points[len(points)-1]
	if r.Reset == ResetNever {
		return fmt.Sprintf(
			"%s of the stream seen; mean over the last %s, at the beginning over all",
			unit, r.label(last.To-last.From))
	}
	if first := points[0].Texts; first != last.Texts {
		return fmt.Sprintf("%s into a document; mean over an octave and over %d (left) to %d "+
			"(right) "+
			"documents", unit, first, last.Texts)
	}
	return fmt.Sprintf("%s into a document; mean over an octave and over %s", unit,
		setting.Count(last.Texts, "document"))
}

func (r Result) extent() string {
	s := fmt.Sprintf("%s, %s", setting.Count(len(r.Documents), "document"),
		byteLabel(r.Total.Bytes))
	if r.Reset == ResetNever {
		s += " as one stream"
	}
	return s
}

func (r Result) label(n int64) string {
	if r.Words {
		return humanize.Comma(n)
	}
	return byteLabel(n)
}

// byteLabel formats a number of bytes compactly, with 1 KB = 1024 bytes.
func byteLabel(n int64) string {
	switch {
	case n >= 10*kb*kb || n >= kb*kb && n%(kb*kb) == 0:
		return fmt.Sprintf("%d MB", (n+kb*kb/2)/(kb*kb))
	case n >= kb:
		return fmt.Sprintf("%d KB", (n+kb/2)/kb)
	}
	return fmt.Sprintf("%d B", n)
}

// ticks returns the marks of an axis of tokens. On a logarithmic axis they are at powers of two. On
// a linear axis they are at multiples of a power of two.
func (r Result) ticks(from, to float64, log bool) (ticks []chart.Tick) {
	add := func(v float64) {
		if v >= from && v <= to {
			ticks = append(ticks, chart.Tick{Value: v, Label: r.label(int64(v))})
		}
	}
	if log {
		factor := 2.0
		if to/from > 1<<12 {
			factor = 4
		}
		for v := 1.0; v <= to; v *= factor {
			add(v)
		}
		return ticks
	}
	step := 128.0
	for to/step > 9 {
		step *= 2
	}
	for v := step; v <= to; v += step {
		add(v)
	}
	return ticks
}

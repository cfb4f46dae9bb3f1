package chart

import (
	"fmt"
	"image/color"
	"math"
	"slices"
)

// picture is a chart with coordinates. Lengths are in points of 1/72 inch, measured from the top
// left.
type picture struct {
	paths []path
	texts []text
}

type path struct {
	points []Point
	color  color.RGBA
	width  float64
	dashes []float64 // alternating lengths of dashes and gaps; nil: a solid line
}

// text is a line of text. The point (x, y) is the text's anchor on the base line.
type text struct {
	said   string
	x, y   float64
	size   float64
	anchor anchor
	upward bool
}

// anchor is the fraction of a text's width that lies before the point (x, y), in the direction of
// reading.
type anchor float64

const (
	start  anchor = 0
	middle anchor = .5
	end    anchor = 1
)

// Sizes and positions in a chart, in points. The chart is legible at the width of a page.
const (
	width, height = 576.0, 324.0
	margin        = 10.0

	titleSize, labelSize, tickSize = 14.0, 13.0, 12.0

	titleAt  = 21.5 // base line of the title
	legendAt = 40.0 // middle of the legend
	top      = 58.5
	bottom   = 274.0
	ticksAt  = 292.0 // base line of the x axis's tick labels
	labelAt  = 310.0 // base line of the x axis's label
	sideAt   = 20.5  // horizontal position of the y axis's label

	tickLength, textGap = 8.0, 3.5
	sample              = 28.0 // length of a line's sample in the legend
	lineWidth           = 1.8
	axisWidth           = .5
	gridWidth           = .25
)

var (
	axisColor = color.RGBA{0x66, 0x66, 0x66, 0xff}
	gridColor = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
)

func (c Chart) picture() (*picture, error) {
	if len(c.Lines) > MaxLines {
		return nil, fmt.Errorf("found %d lines, expected at most %d", len(c.Lines), MaxLines)
	}
	lines := make([][]Point, len(c.Lines))
	var xs, ys []float64
	for i, l := range c.Lines {
		for _, p := range l.Points {
			at := Point{c.X.at(p.X), c.Y.at(p.Y)}
			if math.IsNaN(at.X+at.Y) || math.IsInf(at.X+at.Y, 0) {
				return nil, fmt.Errorf("line %s: found the point (%v, %v), expected finite "+
					"numbers, above 0 on a logarithmic axis", l.Name, p.X,
					p.Y)
			}
			lines[i] = append(lines[i], at)
			xs, ys = append(xs, at.X), append(ys, at.Y)
		}
	}
	if len(xs) == 0 {
		return nil, fmt.Errorf("nothing to draw: no line has a point")
	}
	p := &picture{}
	xTicks, x0, x1 := c.X.scaled(xs)
	yTicks, y0, y1 := c.Y.scaled(ys)
	wide := 0.0
	for _, t := range yTicks {
		wide = max(wide, textWidth(t.Label, tickSize))
	}
	left := sideAt + 11 + wide + textGap + tickLength + axisWidth
	x := span{x0, x1, left, rightEdge(xTicks, x0, x1, left)}
	y := span{y0, y1, bottom, top}

	p.say(text{c.Title, width / 2, titleAt, titleSize, middle, false})
	p.axes(xTicks, yTicks, x, y)
	p.say(text{c.X.Label, (x.a + x.b) / 2, labelAt, labelSize, middle, false})
	p.say(text{c.Y.Label, sideAt, (top + bottom) / 2, labelSize, middle, true})
	for i, points := range lines {
		if len(points) > 0 {
			for j, at := range points {
				points[j] = Point{x.at(at.X), y.at(at.Y)}
			}
			p.paths = append(p.paths, path{points, styles[i].color, lineWidth, styles[i].dashes})
		}
	}
	p.legend(c.Lines)
	return p, nil
}

// span is a linear map from the values lo..hi to the positions a..b.
type span struct{ lo, hi, a, b float64 }

func (s span) at(v float64) float64 { return s.a + (v-s.lo)/(s.hi-s.lo)*(s.b-s.a) }

// rightEdge returns the right end of the plot area. The labels of the x axis must stay within the
// page's margin.
func rightEdge(ticks []Tick, lo, hi, left float64) float64 {
	right := width - margin - lineWidth/2
	for _, t := range ticks {
		if share := (t.Value - lo) / (hi - lo); share > 0 {
			room := width - margin - textWidth(t.Label, tickSize)/2 - left
			right = min(right, left+room/share)
		}
	}
	return right
}

func (p *picture) axes(xTicks, yTicks []Tick, x, y span) {
	line := func(c color.RGBA, w, x0, y0, x1, y1 float64) {
		p.paths = append(p.paths, path{[]Point{{x0, y0}, {x1, y1}}, c, w, nil})
	}
	for _, t := range xTicks {
		at := x.at(t.Value)
		line(gridColor, gridWidth, at, y.a, at, y.b)
		line(axisColor, axisWidth, at, y.a, at, y.a+tickLength)
		p.say(text{t.Label, at, ticksAt, tickSize, middle, false})
	}
	for _, t := range yTicks {
		at := y.at(t.Value)
		line(gridColor, gridWidth, x.a, at, x.b, at)
		line(axisColor, axisWidth, x.a-tickLength, at, x.a, at)
		p.say(text{t.Label, x.a - tickLength - textGap, at + tickSize/4, tickSize, end, false})
	}
	line(axisColor, axisWidth, x.a, y.a, x.b, y.a)
	line(axisColor, axisWidth, x.a, y.a, x.a, y.b)
}

func (p *picture) legend(lines []Line) {
	x := margin
	for i, l := range lines {
		ends := []Point{{x, legendAt}, {x + sample, legendAt}}
		p.paths = append(p.paths, path{ends, styles[i].color, lineWidth,
			slices.Clone(styles[i].dashes)})
		p.say(text{l.Name, x + sample + textGap, legendAt + tickSize/4, tickSize, start, false})
		x += sample + textWidth(l.Name, tickSize) + 1.5*labelSize
	}
}

func (p *picture) say(t text) {
	if t.said != "" {
		p.texts = append(p.texts, t)
	}
}

package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func example() Chart {
	c := Chart{Title: "a title", X: Axis{Label: "bytes seen", Log: true,
		Ticks: []Tick{{128, "128 B"}, {1024, "1 KB"}}}, Y: Axis{Label: "bits per byte"}}
	for i := range MaxLines {
		l := Line{Name: fmt.Sprintf("line %d", i)}
		for j := range 10 + i {
			l.Points = append(l.Points, Point{X: 100 * math.Exp2(float64(j)/3),
				Y: 3 - float64(i+j)/20})
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

func elements(t *testing.T, svg []byte) (texts []string, paths map[string][]string) {
	paths = map[string][]string{}
	inText := false
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return texts, paths
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
			attr := map[string]string{}
			for _, a := range e.Attr {
				attr[a.Name.Local] = a.Value
			}
			if e.Name.Local == "path" {
				_, stroke, _ := strings.Cut(attr["style"], "stroke:")
				stroke, _, _ = strings.Cut(stroke, ";")
				paths[stroke] = append(paths[stroke], attr["d"])
			}
		case xml.CharData:
			if inText {
				texts = append(texts, strings.TrimSpace(string(e)))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func TestSVGHasOnePathPerLine(t *testing.T) {
	c := example()
	svg, err := c.SVG()
	require.NoError(t, err)
	texts, paths := elements(t, svg)
	for _, want := range []string{c.Title, c.X.Label, c.Y.Label, "128 B", "1 KB"} {
		require.Contains(t, texts, want)
	}
	for i, l := range c.Lines {
		require.Contains(t, texts, l.Name)
		rgb := styles[i].color
		drawn := paths[fmt.Sprintf("#%02X%02X%02X", rgb.R, rgb.G, rgb.B)]
		require.Len(t, drawn, 2, "the line and its sample in the legend")
		require.Equal(t, len(l.Points), points(drawn[0]))
		require.Equal(t, 2, points(drawn[1]))
	}
	again, err := c.SVG()
	require.NoError(t, err)
	require.Equal(t, svg, again, "the same bytes every time")
}

func points(path string) int { return strings.Count(path, "M") + strings.Count(path, "L") }

func TestPNGDecodes(t *testing.T) {
	text, err := example().PNG()
	require.NoError(t, err)
	picture, err := png.Decode(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, 8*dpi, picture.Bounds().Dx())
	colors := map[string]bool{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, _ := picture.At(x, y).RGBA()
			colors[fmt.Sprint(r>>8, g>>8, b>>8)] = true
		}
	}
	for i, s := range styles {
		require.True(t, colors[fmt.Sprint(s.color.R, s.color.G, s.color.B)], "color of line %d", i)
	}
}

func TestNothingIsDrawnOfWhatCannotBe(t *testing.T) {
	for says, change := range map[string]func(*Chart){
		"no line has a point":         func(c *Chart) { c.Lines = []Line{{Name: "empty"}} },
		"7 lines, expected at most 6": func(c *Chart) { c.Lines = append(c.Lines, c.Lines[0]) },
		"line line 2":                 func(c *Chart) { c.Lines[2].Points[3].Y = math.NaN() },
		"line line 0":                 func(c *Chart) { c.Lines[0].Points[0].X = -1 },
	} {
		c := example()
		change(&c)
		_, err := c.SVG()
		require.ErrorContains(t, err, says)
	}
	c := Chart{Lines: []Line{{Name: "one point", Points: []Point{{1, 1}}}}}
	_, err := c.SVG()
	require.NoError(t, err)
}

func TestFilesAreWrittenByExtension(t *testing.T) {
	dir := t.TempDir()
	for name, begins := range map[string]string{"a.svg": "<?xml", "b.PNG": "\x89PNG"} {
		path := filepath.Join(dir, name)
		require.NoError(t, example().Write(path))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), begins))
	}
	for path, says := range map[string]string{
		"x.pdf":                                `x.pdf: extension is ".pdf", expected .svg or .png`,
		filepath.Join(dir, "missing", "x.svg"): "missing",
		filepath.Join(dir, "a.svg", "inside it.svg"): "expected a directory",
	} {
		require.ErrorContains(t, example().Write(path), says)
	}
}

func TestTicksAreRoundAndCoverTheRange(t *testing.T) {
	for _, r := range [][2]float64{{0, 1}, {1.93, 3.21}, {2, 2}, {0.001, 0.0017}, {-3, 4000}} {
		ticks, lo, hi := round(r[0], r[1])
		require.LessOrEqual(t, lo, r[0])
		require.GreaterOrEqual(t, hi, r[1])
		require.GreaterOrEqual(t, len(ticks), 4)
		require.LessOrEqual(t, len(ticks), 12)
		for i := range ticks[1:] {
			require.NotEqual(t, ticks[i].Label, ticks[i+1].Label)
		}
	}
}

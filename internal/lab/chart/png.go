package chart

import (
	"bytes"
	"image/color"
	"math"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"git.sr.ht/~sbinet/gg"
	"golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
)

// Pixels of a PNG per inch and per point.
const (
	dpi   = 192
	pixel = dpi / 72.0
)

var sans = sync.OnceValue(func() *opentype.Font {
	f, err := opentype.Parse(liberationsansregular.TTF)
	if err != nil {
		panic(err) // the embedded font is always valid
	}
	return f
})

// face returns the font in a size in points, for `dpi` pixels per inch.
func face(size, dpi float64) font.Face {
	f, err := opentype.NewFace(sans(), &opentype.FaceOptions{Size: size, DPI: dpi})
	if err != nil {
		panic(err) // NewFace fails only for an invalid size
	}
	return f
}

// textWidth returns the width of a text, in points.
func textWidth(said string, size float64) float64 {
	return float64(font.MeasureString(face(size, 72), said)) / 64
}

func (p *picture) png() ([]byte, error) {
	c := gg.NewContext(int(width*pixel), int(height*pixel))
	c.SetColor(color.White)
	c.Clear()
	c.SetLineCapButt()
	for _, l := range p.paths {
		c.SetColor(l.color)
		c.SetLineWidth(l.width * pixel)
		var dashes []float64
		for _, d := range l.dashes {
			dashes = append(dashes, d*pixel)
		}
		c.SetDash(dashes...)
		for _, at := range l.points {
			c.LineTo(at.X*pixel, at.Y*pixel)
		}
		c.Stroke()
	}
	c.SetColor(color.Black)
	for _, t := range p.texts {
		c.Push()
		if t.upward {
			c.RotateAbout(-math.Pi/2, t.x*pixel, t.y*pixel)
		}
		c.SetFontFace(face(t.size, dpi))
		c.DrawStringAnchored(t.said, t.x*pixel, t.y*pixel, float64(t.anchor), 0)
		c.Pop()
	}
	var b bytes.Buffer
	err := c.EncodePNG(&b)
	return b.Bytes(), err
}

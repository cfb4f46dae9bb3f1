package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
)

// family names the font in which the package measures text widths. The alternatives have the same
// widths, except the last.
const family = "Liberation Sans,Arial,Helvetica,sans-serif"

var anchorNames = map[anchor]string{start: "start", middle: "middle", end: "end"}

func (p *picture) svg() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0"?>
<svg width="%vpt" height="%vpt" viewBox="0 0 %[1]v %v" xmlns="http://www.w3.org/2000/svg">
<rect width="%[1]v" height="%[2]v" style="fill:#FFFFFF"/>
<g style="font-family:%s">
`, width, height, family)
	for _, l := range p.paths {
		b.WriteString(`<path d="`)
		for i, at := range l.points {
			fmt.Fprintf(&b, "%c%.5g,%.5g", "ML"[min(i, 1)], at.X, at.Y)
		}
		fmt.Fprintf(&b, `" style="fill:none;stroke:#%02X%02X%02X;stroke-width:%v`,
			l.color.R, l.color.G, l.color.B, l.width)
		if l.dashes != nil {
			b.WriteString(";stroke-dasharray:" +
				strings.Trim(strings.ReplaceAll(fmt.Sprint(l.dashes), " ", ","), "[]"))
		}
		b.WriteString("\"/>\n")
	}
	for _, t := range p.texts {
		fmt.Fprintf(&b, `<text x="%.5g" y="%.5g" style="font-size:%vpx;text-anchor:%s"`,
			t.x, t.y, t.size, anchorNames[t.anchor])
		if t.upward {
			fmt.Fprintf(&b, ` transform="rotate(-90,%.5g,%.5g)"`, t.x, t.y)
		}
		b.WriteString(">")
		_ = xml.EscapeText(&b, []byte(t.said)) // a bytes.Buffer never fails
		b.WriteString("</text>\n")
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

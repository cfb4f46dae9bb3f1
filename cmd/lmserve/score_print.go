package main

import (
	"fmt"
	"io"

	"github.com/lmserve/lmserve/api/client"
)

// chunkPrinter prints chunks.
type chunkPrinter struct {
	out                        io.Writer
	compare, totalOnly, asJSON bool

	before, after client.Measures // the session's totals
}

// chunkObject is one chunk, or the total, as JSON, by the names of the contract.
type chunkObject struct {
	Offset      *int64   `json:"offset,omitempty"` // place of the first byte; the total has none
	Bytes       int64    `json:"bytes"`
	Bits        float64  `json:"bits"`
	BPC         float64  `json:"bpc"`
	BaselineBPC *float64 `json:"baseline_bpc,omitempty"`
	StaticBPC   *float64 `json:"static_bpc,omitempty"` // the same, by its name of before
	Lines       *int64   `json:"lines,omitempty"`      // of the total of lines
	Shown       *int64   `json:"shown,omitempty"`      // of these, printed
	Total       bool     `json:"total,omitempty"`
	Partial     bool     `json:"partial,omitempty"` // the text was not scored to its end
}

// compared adds what the static model needs.
func (o *chunkObject) compared(bits float64, chars int64) {
	o.BaselineBPC = new(perChar(bits, chars))
	o.StaticBPC = o.BaselineBPC
}

func (p *chunkPrinter) bytes() int64 { return p.after.Bytes - p.before.Bytes }

func (p *chunkPrinter) header() {
	switch {
	case p.asJSON || p.totalOnly:
	case p.compare:
		fmt.Fprint(p.out, "    offset  static  adaptive  bits per character\n")
	default:
		fmt.Fprint(p.out, "    offset     bpc\n")
	}
}

func (p *chunkPrinter) event(e client.Event) error {
	c := e.Chunk
	if c == nil {
		return nil
	}
	p.after = c.Totals
	o := chunkObject{Offset: &c.Offset, Bytes: c.Bytes, Bits: c.Bits, BPC: perChar(c.Bits, c.Chars)}
	if p.compare && c.BaselineBits != nil {
		o.compared(*c.BaselineBits, c.Chars)
	}
	if p.totalOnly {
		return nil
	}
	return p.print(o)
}

// printTotal prints what all chunks come to: by how much the session's totals have grown.
func (p *chunkPrinter) printTotal(partial bool) error {
	chars, bits := p.after.Chars-p.before.Chars, p.after.Bits-p.before.Bits
	o := chunkObject{
		Total: true, Partial: partial, Bytes: p.bytes(), Bits: bits, BPC: perChar(bits, chars),
	}
	if p.compare {
		o.compared(orZero(p.after.BaselineBits)-orZero(p.before.BaselineBits), chars)
	}
	return p.print(o)
}

func orZero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func (p *chunkPrinter) print(o chunkObject) error {
	if p.asJSON {
		return printObject(p.out, o)
	}
	label, tail := "     total", fmt.Sprintf("  %d bytes, %.0f bits", o.Bytes, o.Bits)
	if !o.Total {
		label, tail = fmt.Sprintf("%10d", *o.Offset), ""
	}
	if o.Partial {
		tail += ", not to the end"
	}
	if p.compare {
		_, err := fmt.Fprintf(p.out, "%s  %6.3f    %6.3f%s\n", label, *o.BaselineBPC, o.BPC, tail)
		return err
	}
	_, err := fmt.Fprintf(p.out, "%s  %6.3f%s\n", label, o.BPC, tail)
	return err
}

// linePrinter prints lines.
type linePrinter struct{ *lineReport }

func (p *linePrinter) event(e client.Event) error {
	if e.Line == nil {
		return nil
	}
	_, err := p.line(foundLine(*e.Line))
	return err
}

func (p *linePrinter) bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total.bytes
}

func (p *linePrinter) printTotal(partial bool) error {
	if err := p.end(); err != nil {
		return err
	}
	t := &p.total
	if !p.asJSON {
		end := orWord("", partial, ", not to the end")
		_, err := fmt.Fprintf(p.out, "%10s  %v%s\n", "total", t, end)
		return err
	}
	o := chunkObject{
		Total: true, Partial: partial, Bytes: t.bytes, Bits: t.bits, BPC: perChar(t.bits, t.chars),
		Lines: &t.lines, Shown: &t.shown,
	}
	if t.baseline {
		o.compared(t.baselineBits, t.chars)
	}
	return printObject(p.out, o)
}

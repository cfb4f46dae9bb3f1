package main

import (
	"fmt"
	"io"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

type chunkPrinter struct {
	out, errs                  io.Writer
	compare, totalOnly, asJSON bool
	words                      bool
	served                     string

	before, after client.Measures
	from, to      int64 // the session's offsets before and after the scored text
}

func newChunkPrinter(s client.Session) *chunkPrinter {
	return &chunkPrinter{
		served: servedBy(s.Settings),
		words:  s.Totals.Unknown != nil, before: s.Totals, after: s.Totals, from: s.Offset,
		to: s.Offset,
	}
}

// servedBy returns the name of a session's method, with "+companion" if the session has a
// companion. The name "static" means the slow weights without a companion.
func servedBy(s *client.Settings) string {
	name := "adaptive"
	if s == nil {
		return name
	}
	if s.Method == client.MethodStatic {
		name = string(client.MethodStatic)
	}
	return name + orWord("", s.Companion, "+companion")
}

func (p *chunkPrinter) bytes() int64 { return p.to - p.from }

func (p *chunkPrinter) header() {
	switch {
	case p.asJSON || p.totalOnly:
	case p.words && p.compare:
		fmt.Fprintf(p.out, "    offset     static  %9s  perplexity\n", p.served)
	case p.words:
		fmt.Fprint(p.out, "    offset  perplexity  unknown words  bits/byte\n")
	case p.compare:
		fmt.Fprintf(p.out, "    offset  static  %s  bits per character\n", p.served)
	default:
		fmt.Fprint(p.out, "    offset     bpc\n")
	}
}

func (p *chunkPrinter) event(e client.Event) error {
	c := e.Chunk
	if c == nil {
		return nil
	}
	p.after, p.to = c.Totals, c.Totals.Bytes+orZero(c.PendingBytes)
	o := p.object(client.Measures{
		Bytes: c.Bytes, Chars: c.Chars, Tokens: c.Tokens, Bits: c.Bits,
		BaselineBits: c.BaselineBits,
		Unknown:      c.Unknown, UnknownBytes: c.UnknownBytes, UnknownBits: c.UnknownBits,
	})
	o.Offset = &c.Offset
	if p.totalOnly {
		return nil
	}
	return p.print(o)
}

func (p *chunkPrinter) object(m client.Measures) chunkObject {
	o := chunkObject{Bytes: m.Bytes, Bits: m.Bits}
	if !p.compare {
		m.BaselineBits = nil
	}
	if p.words {
		o.ofWords(m)
		return o
	}
	if m.Chars == 0 && m.Bytes > 0 {
		return o // no character begins here, so there are no bits per character
	}
	o.BPC = new(perUnit(m.Bits, m.Chars))
	if m.BaselineBits != nil {
		o.compared(*m.BaselineBits, m.Chars)
	}
	return o
}

// printTotal prints the total of all chunks, computed as the growth of the session's totals.
func (p *chunkPrinter) printTotal(partial bool) error {
	o := p.object(growth(p.before, p.after))
	o.Total, o.Partial = true, partial
	if p.words {
		o.PendingBytes = new(p.to - p.after.Bytes)
	}
	if err := p.print(o); err != nil {
		return err
	}
	if doubt := o.doubt(); doubt != "" {
		_, err := fmt.Fprintf(p.errs, "lmserve: %s\n", doubt)
		return err
	}
	return nil
}

func growth(from, to client.Measures) client.Measures {
	m := client.Measures{
		Bytes: to.Bytes - from.Bytes, Chars: to.Chars - from.Chars, Tokens: to.Tokens - from.Tokens,
		Bits:         to.Bits - from.Bits,
		BaselineBits: new(orZero(to.BaselineBits) - orZero(from.BaselineBits)),
	}
	if to.Unknown != nil {
		m.Unknown = new(*to.Unknown - orZero(from.Unknown))
		m.UnknownBytes = new(orZero(to.UnknownBytes) - orZero(from.UnknownBytes))
		m.UnknownBits = new(orZero(to.UnknownBits) - orZero(from.UnknownBits))
	}
	return m
}

func orZero[T int64 | float64](v *T) T {
	if v == nil {
		return 0
	}
	return *v
}

func orDash(v *float64) string {
	return orWord(fmt.Sprintf("%.3f", orZero(v)), v == nil, "-")
}

func (p *chunkPrinter) print(o chunkObject) error {
	if p.asJSON {
		return printObject(p.out, o)
	}
	label, tail := "     total", o.amount()
	if !o.Total {
		label, tail = fmt.Sprintf("%10d", *o.Offset), ""
	}
	if p.words && p.totalOnly {
		tail = "," + tail[1:]
	}
	if o.Partial {
		tail += ", not the whole text"
	}
	_, err := fmt.Fprintf(p.out, "%s  %s%s\n", label, p.columns(o), tail)
	return err
}

func (p *chunkPrinter) columns(o chunkObject) string {
	switch {
	case p.words && p.totalOnly: // without a header, the line itself says what the numbers mean
		text := fmt.Sprintf("perplexity %.2f", orZero(o.Perplexity))
		if p.compare {
			text += fmt.Sprintf(" (static %.2f)", orZero(o.BaselinePerplexity))
		}
		return text + fmt.Sprintf(", %.3f bits/byte", orZero(o.BitsPerByte))
	case p.words && p.compare:
		return fmt.Sprintf("%9.2f  %*.2f", orZero(o.BaselinePerplexity), max(9, len(p.served)),
			orZero(o.Perplexity))
	case p.words:
		return fmt.Sprintf("%10.2f  %13d  %9.3f", orZero(o.Perplexity), orZero(o.Unknown),
			orZero(o.BitsPerByte))
	case p.compare:
		return fmt.Sprintf("%6s  %*s", orDash(o.BaselineBPC), len(p.served), orDash(o.BPC))
	}
	return fmt.Sprintf("%6s", orDash(o.BPC))
}

// rate formats the mean cost of all chunks: a perplexity, or bits per character.
func (p *chunkPrinter) rate() string {
	o := p.object(growth(p.before, p.after))
	if p.words {
		return fmt.Sprintf("a perplexity of %.2f", orZero(o.Perplexity))
	}
	return fmt.Sprintf("%.3f bits a character", orZero(o.BPC))
}

type linePrinter struct{ *lineReport }

func (p *linePrinter) event(e client.Event) error {
	if e.Line == nil {
		return nil
	}
	_, err := p.line(watch.Found{Line: *e.Line})
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
		end := orWord("", partial, ", not the whole text")
		_, err := fmt.Fprintf(p.out, "%10s  %v%s\n", "total", t, end)
		return err
	}
	return printObject(p.out, t.object(partial))
}

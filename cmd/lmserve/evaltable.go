package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/lmserve/lmserve/internal/eval"
)

// nameWidth keeps a table of five methods within 120 columns.
const nameWidth = 36

// printEval prints a result for people: one table of documents, domains, total, cost, curve; then
// what is in part only, and what diverged.
func printEval(w io.Writer, res eval.Result) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "model %s\n%s\nbits per byte%s\n\n", res.Model, describe(res), reference(res.Methods))
	if len(res.Documents) > 0 {
		printDocuments(&text, res)
	}
	if res.Partial != nil {
		printPartial(&text, res)
	}
	for _, d := range res.Divergence {
		fmt.Fprintf(&text, "\n%s diverged in %s near byte %d: %s\n", d.Method, d.Document, d.Offset, d.Why)
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// printPartial prints how far the methods came in a document that was interrupted.
func printPartial(text *bytes.Buffer, res eval.Result) {
	if len(res.Documents) > 0 {
		fmt.Fprintln(text)
	}
	p := res.Partial
	fmt.Fprintf(text, "in part, and in no total: %s, of %d bytes\n", p.Name, p.Bytes)
	for _, s := range p.Scores {
		fmt.Fprintf(text, "%s: %.3f over the first %d bytes\n", s.Method, s.BitsPerByte, s.Bytes)
	}
}

// printDocuments prints the table of what is done.
func printDocuments(text *bytes.Buffer, res eval.Result) {
	t := evalTable{tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight), len(res.Methods)}
	t.row("bytes", "document", res.Methods)
	for _, d := range res.Documents {
		t.part(d.Name, d)
	}
	t.blank()
	if len(res.Domains) > 1 {
		for _, d := range res.Domains {
			t.part(fmt.Sprintf("%s, %s", d.Name, documents(d.Documents)), d)
		}
		t.blank()
	}
	t.part("total, "+documents(res.Total.Documents), res.Total)
	t.cost(res.Methods[0], res.Total)
	if len(res.Curve) > 0 {
		t.blank()
		for _, p := range res.Curve {
			t.curve(p)
		}
	}
	_ = t.Flush() // to memory
}

// describe says what was scored and how.
func describe(res eval.Result) string {
	s := fmt.Sprintf("%s: %s", res.Data, documents(len(res.Documents)))
	if res.Interrupted {
		s += " (interrupted; there are more)"
	}
	if res.MaxBytes > 0 {
		s += fmt.Sprintf(", the first %d bytes of each", res.MaxBytes)
	}
	if res.Shuffle != nil {
		s += fmt.Sprintf(", in the order of shuffle %d", *res.Shuffle)
	}
	if res.KV == eval.KVCached {
		s += ", keys and values cached"
	}
	if res.Reset == eval.ResetNever {
		return s + ", all one stream"
	}
	return s + ", each a stream of its own"
}

func reference(methods []string) string {
	if len(methods) == 1 {
		return ""
	}
	return fmt.Sprintf(", and how many fewer than %s", methods[0])
}

func documents(n int) string {
	if n == 1 {
		return "1 document"
	}
	return fmt.Sprintf("%d documents", n)
}

// evalTable has a column of bytes, one a method and one of names.
type evalTable struct {
	*tabwriter.Writer
	methods int
}

// row keeps the end of a long name, which tells documents apart.
func (t evalTable) row(size, name string, cells []string) {
	if r := []rune(name); len(r) > nameWidth {
		name = "…" + string(r[len(r)-nameWidth+1:])
	}
	fmt.Fprintf(t, "%s\t%s\t  %s\n", size, strings.Join(cells, "\t"), name)
}

// blank is a row too: a line without cells would end the columns.
func (t evalTable) blank() { t.row("", "", make([]string, t.methods)) }

func (t evalTable) part(name string, p eval.Part) {
	var cells []string
	for k, s := range p.Scores {
		if s == nil {
			cells = append(cells, "diverged")
			continue
		}
		cells = append(cells, cell(k, s.BitsPerByte, s.Gain))
	}
	t.row(fmt.Sprint(p.Bytes), name, cells)
}

// cell is bits per byte and, of all methods but the first, the gain.
func cell(k int, bitsPerByte float64, gain *float64) string {
	if k == 0 || gain == nil {
		return fmt.Sprintf("%.3f", bitsPerByte)
	}
	return fmt.Sprintf("%.3f %+.3f", bitsPerByte, *gain)
}

// cost is two rows: time a byte, and as a multiple of the first method's.
func (t evalTable) cost(first string, total eval.Part) {
	micros, times := make([]string, t.methods), make([]string, t.methods)
	for k, s := range total.Scores {
		if s == nil {
			continue
		}
		micros[k] = fmt.Sprintf("%.1f", s.MicrosPerByte)
		if s.Cost != nil {
			times[k] = fmt.Sprintf("%.2f", *s.Cost)
		}
	}
	t.row("", "microseconds a byte", micros)
	if t.methods > 1 {
		t.row("", "times the time of "+first, times)
	}
}

// curve is one point: the first KB (1024 bytes) of the documents that have them.
func (t evalTable) curve(p eval.Point) {
	var cells []string
	for k, b := range p.BitsPerByte {
		if b == nil {
			cells = append(cells, "diverged")
			continue
		}
		var gain *float64
		if first := p.BitsPerByte[0]; first != nil {
			d := *first - *b
			gain = &d
		}
		cells = append(cells, cell(k, *b, gain))
	}
	t.row(fmt.Sprint(int64(p.Texts)*p.To), fmt.Sprintf("the first %d KB of %s", p.To/1024, documents(p.Texts)), cells)
}

package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/lab/eval"
)

// A table of six methods is 120 characters wide. Names of documents get nameWidth characters in a
// table of up to five methods. Each further method takes methodWidth characters from the names.
const (
	nameWidth   = 36
	methodWidth = 16
)

func printEval(w io.Writer, res eval.Result) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "model %s\n%s\n%s\n\n", res.Model, describe(res), measure(res))
	if len(res.Documents) > 0 {
		printDocuments(&text, res)
	}
	if res.Partial != nil {
		printPartial(&text, res)
	}
	for _, d := range res.Divergence {
		fmt.Fprintf(&text, "\n%s diverged in %s near byte %d: %s\n", d.Method, d.Document, d.Offset,
			d.Why)
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func printPartial(text *bytes.Buffer, res eval.Result) {
	if len(res.Documents) > 0 {
		fmt.Fprintln(text)
	}
	p := res.Partial
	fmt.Fprintf(text, "scored in part, and not included in the totals: %s, of %d "+
		"bytes\n", printableLine(p.Name), p.Bytes)
	for _, s := range p.Scores {
		if res.Words {
			fmt.Fprintf(text, "%s: %.2f over the first %d tokens\n", s.Method, s.Perplexity,
				s.Tokens)
		} else {
			fmt.Fprintf(text, "%s: %.3f over the first %d bytes\n", s.Method, s.BitsPerByte,
				s.Bytes)
		}
	}
}

func printDocuments(text *bytes.Buffer, res eval.Result) {
	columns := tabwriter.NewWriter(text, 0, 0, 2, ' ', tabwriter.AlignRight)
	t := evalTable{columns, len(res.Methods), res.Words}
	t.row(t.unit()+"s", "document", res.Methods)
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
	if res.Words && res.Total.Tokens > 0 { // tokens are not counted if all methods diverged
		t.blank()
		t.unknown(res.Total)
	}
	if len(res.Curve) > 0 {
		t.blank()
		for _, p := range res.Curve {
			t.curve(p)
		}
	}
	_ = t.Flush()
}

func describe(res eval.Result) string {
	s := fmt.Sprintf("%s: %s", res.Data, documents(len(res.Documents)))
	if res.Interrupted {
		s += " (interrupted; not all documents were scored)"
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
		s += ", all one stream"
	} else {
		s += ", each a stream of its own"
	}
	for _, name := range slices.Sorted(maps.Keys(res.Settings)) {
		s += fmt.Sprintf("; %s %v", name, res.Settings[name])
	}
	return s
}

func measure(res eval.Result) string {
	what, less := "bits per byte", "how many fewer than"
	if res.Words {
		what, less = "perplexity (unknown words are tokens, too)", "how many percent less than"
	}
	if len(res.Methods) == 1 {
		return what
	}
	return fmt.Sprintf("%s, and %s %s", what, less, res.Methods[0])
}

func documents(n int) string { return setting.Count(n, "document") }

type evalTable struct {
	*tabwriter.Writer
	methods int
	words   bool
}

func (t evalTable) unit() string {
	if t.words {
		return "token"
	}
	return "byte"
}

// row adds a row. It shortens a long name at its beginning, because the end of the name
// distinguishes documents.
func (t evalTable) row(size, name string, cells []string) {
	width := max(methodWidth, nameWidth-methodWidth*max(0, t.methods-5))
	if r := []rune(name); len(r) > width {
		name = "…" + string(r[len(r)-width+1:])
	}
	fmt.Fprintf(t, "%s\t%s\t  %s\n", size, strings.Join(cells, "\t"), name)
}

// blank adds a row of empty cells. A line without cells would end the alignment of the columns.
func (t evalTable) blank() { t.row("", "", make([]string, t.methods)) }

func (t evalTable) part(name string, p eval.Part) {
	var cells []string
	for k, s := range p.Scores {
		switch {
		case s == nil:
			cells = append(cells, "diverged")
		case t.words:
			cells = append(cells, cell(k, 2, s.Perplexity, s.GainPercent))
		default:
			cells = append(cells, cell(k, 3, s.BitsPerByte, s.Gain))
		}
	}
	size := p.Bytes
	if t.words {
		size = p.Tokens
	}
	t.row(fmt.Sprint(size), printableLine(name), cells)
}

// cell formats a score with the given number of decimal places. In all columns except the first, it
// appends the gain. A nil gain is omitted.
func cell(k, digits int, score float64, gain *float64) string {
	if k == 0 || gain == nil {
		return fmt.Sprintf("%.*f", digits, score)
	}
	return fmt.Sprintf("%.*f %+.*f", digits, score, digits, *gain)
}

func (t evalTable) cost(first string, total eval.Part) {
	micros, times := make([]string, t.methods), make([]string, t.methods)
	for k, s := range total.Scores {
		if s == nil {
			continue
		}
		micros[k] = fmt.Sprintf("%.1f", s.MicrosPerToken)
		if s.Cost != nil {
			times[k] = fmt.Sprintf("%.2f", *s.Cost)
		}
	}
	t.row("", "microseconds a "+t.unit(), micros)
	if t.methods > 1 {
		t.row("", "times the time of "+first, times)
	}
}

func (t evalTable) unknown(total eval.Part) {
	cells, share := make([]string, t.methods), 100*float64(total.Unknown)/float64(total.Tokens)
	for k, s := range total.Scores {
		if s != nil {
			cells[k] = cell(k, 3, s.BitsPerByte, s.Gain)
		}
	}
	t.row(fmt.Sprint(total.Unknown), fmt.Sprintf("unknown words, %.2f %%", share),
		make([]string, t.methods))
	t.row(fmt.Sprint(total.Bytes-total.UnknownBytes), "bytes of known words: bits per byte", cells)
}

// curve adds a row for one point of the learning curve: the mean score of the first tokens, over
// all documents that are long enough. 1 KB is 1024 bytes.
func (t evalTable) curve(p eval.Point) {
	var cells []string
	for k, b := range p.Bits() {
		if b == nil {
			cells = append(cells, "diverged")
			continue
		}
		cells = append(cells, t.mean(k, *b, p.Bits()[0]))
	}
	size := fmt.Sprintf("%d KB", p.To/1024)
	if t.words {
		size = fmt.Sprintf("%d tokens", p.To)
	}
	name := fmt.Sprintf("the first %s of %s", size, documents(p.Texts))
	t.row(fmt.Sprint(int64(p.Texts)*p.To), name, cells)
}

// mean formats the mean bits per token, or the perplexity for a model of words. It adds the gain
// over the first method unless that method diverged.
func (t evalTable) mean(k int, bits float64, first *float64) string {
	score, digits := bits, 3
	var gain *float64
	if first != nil {
		gain = new(*first - bits)
	}
	if t.words {
		score, digits = math.Exp2(bits), 2
		if gain != nil {
			gain = new(100 * (1 - math.Exp2(-*gain)))
		}
	}
	return cell(k, digits, score, gain)
}

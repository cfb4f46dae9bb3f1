package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/lmserve/lmserve/api/client"
)

// strange is the maximum rating of the lines that the demo prints.
const strange = 1.0 / 50

// feed feeds the texts of all streams, and prints the bits per byte of each model. The parameter
// `watched` selects whether streams are fed in parallel.
func feed(ctx context.Context, c *client.Client, all []*stream, watched bool) error {
	fmt.Printf(
		"\nBits per byte of the texts: the static model alone (.) and with a companion that "+
			"counts (:),\nthe adapting model alone (+) and with its companion (#), which is what a "+
			"session serves:\n\n%-12s%8s%8s%12s%10s%12s\n",
		"", "bytes", "static", "+companion", "adaptive", "+companion")
	group, ctx := errgroup.WithContext(ctx)
	if !watched {
		group.SetLimit(1)
	}
	var printing sync.Mutex
	for _, s := range all {
		group.Go(func() error {
			t := table{stream: s, printing: &printing}
			for text := range s.rows() {
				row, err := t.feed(ctx, c, text, watched)
				if err != nil {
					return err
				}
				t.all.add(row)
				// the shorter rest of a text counts only in the total
				if row.bytes >= rowBytes {
					t.print(fmt.Sprint(t.all.bytes), row)
				}
			}
			t.print("all", t.all)
			return nil
		})
	}
	return group.Wait()
}

// costs are the bytes of a text, and the bits that each model needs for them.
type costs struct {
	bytes               int64
	static, staticMixed float64 // bits of the static model, without and with a companion
	// bits of the adapting model, without and with its companion
	adaptive, adaptiveMixed float64
}

func (c *costs) add(more costs) {
	c.bytes += more.bytes
	c.static, c.staticMixed = c.static+more.static, c.staticMixed+more.staticMixed
	c.adaptive, c.adaptiveMixed = c.adaptive+more.adaptive, c.adaptiveMixed+more.adaptiveMixed
}

type table struct {
	stream   *stream
	printing *sync.Mutex // serializes the output of all streams
	all      costs
}

func (t *table) feed(
	ctx context.Context, c *client.Client, text string, watched bool,
) (row costs, err error) {
	options := client.ScoreOptions{Lines: t.stream.lines}
	for e, err := range c.Score(ctx, t.stream.name, reader(ctx, text, watched), options) {
		switch {
		case err != nil:
			return row, err
		case e.Line != nil:
			t.tell(e.Line)
		case e.Summary != nil:
			row = costs{
				bytes: e.Summary.Bytes, static: *e.Summary.BaselineBits,
				adaptive: *e.Summary.NetworkBits, adaptiveMixed: e.Summary.Bits,
			}
		}
	}
	mixed, err := t.stream.shadowBits(ctx, c, t.all.bytes+row.bytes)
	row.staticMixed = mixed - t.all.staticMixed
	return row, err
}

func (t *table) tell(line *client.LineEvent) {
	if !line.Warm || line.P > strange {
		return
	}
	t.printing.Lock()
	defer t.printing.Unlock()
	fmt.Printf("%-12s  one line in %d: %q\n", t.stream.name, line.Rank,
		excerpt(line.TextBytes(), int(line.Span.From), int(line.Span.To)))
}

// excerpt returns up to 76 bytes of a line that show the strangest part, from:to. If this part is
// not in the first 76 bytes, the excerpt begins at a word before the part.
func excerpt(text []byte, from, to int) []byte {
	const before, most = 16, 76
	begin := 0
	if to > most {
		begin = bytes.LastIndexAny(text[:min(max(0, from-before), len(text))], " \t") + 1
	}
	return text[begin:min(len(text), begin+most)]
}

// print draws a bar of # with the bits per byte of the adapting model with its companion. Marks
// show the bits per byte of the other models.
func (t *table) print(at string, c costs) {
	const perBit = 10
	place := func(bits float64) int { return int(perBit * bits / float64(c.bytes)) }
	bar := []byte(strings.Repeat("#", place(c.adaptiveMixed)))
	for _, of := range []struct {
		mark byte
		bits float64
	}{{'.', c.static}, {':', c.staticMixed}, {'+', c.adaptive}} {
		for len(bar) <= place(of.bits) {
			bar = append(bar, ' ')
		}
		bar[place(of.bits)] = of.mark
	}
	t.printing.Lock()
	defer t.printing.Unlock()
	n := float64(c.bytes)
	fmt.Printf("%-12s%8s%8.3f%12.3f%10.3f%12.3f  %s\n", t.stream.name, at,
		c.static/n, c.staticMixed/n, c.adaptive/n, c.adaptiveMixed/n, bar)
}

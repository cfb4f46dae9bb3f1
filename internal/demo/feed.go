package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/lmserve/lmserve/api/client"
)

// row is after how many bytes of a text there is a row of the table.
const row = 2048

// strange is the probability that a line is shown at: about one line in so many is as strange.
const strange = 1.0 / 50

// feed feeds all streams side by side if somebody watches, and else one after the other, and prints
// what their lines cost.
func feed(ctx context.Context, c *client.Client, all []*stream, watched bool) error {
	fmt.Printf("\nBits per byte as the static model (.) and the adapting one (#) see the texts:\n\n"+
		"%-12s%8s%9s%10s\n", "", "bytes", "static", "adaptive")
	group, ctx := errgroup.WithContext(ctx)
	if !watched {
		group.SetLimit(1)
	}
	var printing sync.Mutex
	for _, s := range all {
		group.Go(func() error {
			t := table{stream: s, printing: &printing}
			text := s.reader(ctx, watched)
			for e, err := range c.Score(ctx, s.name, text, client.ScoreOptions{Lines: true}) {
				if err != nil {
					return err
				}
				t.add(e)
			}
			return nil
		})
	}
	return group.Wait()
}

// costs are the bytes of some text, and what they cost both models.
type costs struct {
	bytes          int64
	bits, baseline float64
}

func (c *costs) add(bytes int64, bits, baseline float64) {
	c.bytes, c.bits, c.baseline = c.bytes+bytes, c.bits+bits, c.baseline+baseline
}

// table prints the events of one stream.
type table struct {
	stream   *stream
	printing *sync.Mutex // one row at a time, of any stream
	row, all costs
}

func (t *table) add(e client.Event) {
	t.printing.Lock()
	defer t.printing.Unlock()
	if e.Summary != nil {
		t.print("all", t.all)
		return
	}
	line := e.Line
	if t.stream.lines && line.Warm && line.P <= strange {
		fmt.Printf("%-12s  one line in %d: %s\n", t.stream.name, line.Rank, excerpt(line))
	}
	t.row.add(line.Bytes, line.Bits, *line.BaselineBits)
	t.all.add(line.Bytes, line.Bits, *line.BaselineBits)
	if t.row.bytes >= row {
		t.print(fmt.Sprint(t.all.bytes), t.row)
		t.row = costs{}
	}
}

// excerpt is the strangest part of a line, with some text around it.
func excerpt(e *client.LineEvent) string {
	const before, most = 16, 76
	text := e.TextBytes()
	from := max(0, min(int(e.Span.From), len(text))-before)
	return strconv.Quote(string(text[from:min(len(text), from+most)]))
}

// print draws both numbers on one line: # up to the adaptive one, a dot at the static one.
func (t *table) print(at string, c costs) {
	const perBit = 10
	static, adaptive := c.baseline/float64(c.bytes), c.bits/float64(c.bytes)
	bar := []byte(strings.Repeat("#", int(adaptive*perBit)))
	for len(bar) <= int(static*perBit) {
		bar = append(bar, ' ')
	}
	bar[int(static*perBit)] = '.'
	fmt.Printf("%-12s%8s%9.3f%10.3f  %s\n", t.stream.name, at, static, adaptive, bar)
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
)

func newScore() *cobra.Command {
	var mf modelFlags
	var sf streamFlags
	p := printer{}
	var compare bool
	c := &cobra.Command{
		Use:   "score [FILE...]",
		Short: "Score text and print its bits per character, chunk by chunk",
		Long: `Score files (or standard input) as one stream and print the bits per character of
every chunk and in total. The model adapts as it reads; each chunk is scored
before the update that it causes.`,
		Example: "  lmserve score --compare access.log\n  journalctl | lmserve score",
		RunE: func(c *cobra.Command, files []string) error {
			m, err := mf.load()
			if err != nil {
				return err
			}
			sf.asked["baseline"] = compare
			set, err := sf.settings(m)
			if err != nil {
				return err
			}
			in, closeIn, err := openAll(files, c.InOrStdin())
			if err != nil {
				return err
			}
			defer closeIn()
			p.out, p.compare = c.OutOrStdout(), compare
			return scoreAll(c.Context(), m, set, mf.threads, in, &p)
		},
	}
	mf.register(c)
	sf.register(c)
	c.Flags().BoolVar(&compare, "compare", false, "score with the static model too, beside the adaptive one")
	c.Flags().BoolVar(&p.totalOnly, "total-only", false, "print the total and no line for each chunk")
	c.Flags().BoolVar(&p.asJSON, "json", false, "print JSON, one line for each chunk")
	renamed(c, map[string]string{"total": "total-only"})
	return c
}

// openAll opens every file before the first byte is scored.
func openAll(files []string, stdin io.Reader) (io.Reader, func(), error) {
	if len(files) == 0 {
		return stdin, func() {}, nil
	}
	var readers []io.Reader
	var open []*os.File
	closeAll := func() {
		for _, f := range open {
			f.Close()
		}
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		open, readers = append(open, f), append(readers, f)
	}
	return io.MultiReader(readers...), closeAll, nil
}

// scoreAll feeds the reader to one stream, a chunk at a time.
func scoreAll(ctx context.Context, m *model.Model, set stream.Settings, threads int, in io.Reader, p *printer) error {
	w := stream.NewWorker(m, threads)
	defer w.Close()
	s := stream.New(m, set)
	r := bufio.NewReaderSize(in, 1<<16)
	buf := make([]byte, set.Chunk)
	p.header()
	for ctx.Err() == nil {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			w.Feed(s, buf[:n], func(_ []byte, scores stream.Scores) { p.chunk(s, scores) })
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			p.total(s)
			return p.err
		}
		if err != nil {
			return err
		}
		if p.err != nil {
			return p.err
		}
	}
	return ctx.Err()
}

// printer writes score's lines.
type printer struct {
	out                        io.Writer
	compare, totalOnly, asJSON bool
	err                        error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format, args...)
	}
}

func (p *printer) header() {
	switch {
	case p.asJSON || p.totalOnly:
	case p.compare:
		p.printf("    offset  static  adaptive  bits per character\n")
	default:
		p.printf("    offset     bpc\n")
	}
}

// line is one chunk, or the total, as JSON.
type line struct {
	Offset    *int64   `json:"offset,omitempty"` // place of the first byte; the total has none
	Bytes     int64    `json:"bytes"`
	Bits      float64  `json:"bits"`
	BPC       float64  `json:"bpc"`
	StaticBPC *float64 `json:"static_bpc,omitempty"`
	Total     bool     `json:"total,omitempty"`
}

func (p *printer) chunk(s *stream.Stream, scores stream.Scores) {
	if p.totalOnly {
		return
	}
	n := float64(len(scores.NLL))
	l := line{Offset: &s.Tally.Bytes, Bytes: int64(len(scores.NLL)), Bits: scores.Bits(), BPC: scores.Bits() / n}
	if p.compare {
		static := scores.BaselineBits() / n
		l.StaticBPC = &static
	}
	p.line(l)
}

func (p *printer) total(s *stream.Stream) {
	l := line{Total: true, Bytes: s.Tally.Bytes, Bits: s.Tally.Bits, BPC: s.Tally.BitsPerChar()}
	if p.compare {
		static := s.Baseline.BitsPerChar()
		l.StaticBPC = &static
	}
	p.line(l)
}

func (p *printer) line(l line) {
	if p.asJSON {
		text, err := json.Marshal(l)
		if err != nil {
			p.err = err
			return
		}
		p.printf("%s\n", text)
		return
	}
	label, tail := "     total", fmt.Sprintf("  %d bytes, %.0f bits", l.Bytes, l.Bits)
	if !l.Total {
		label, tail = fmt.Sprintf("%10d", *l.Offset), ""
	}
	if p.compare {
		p.printf("%s  %6.3f    %6.3f%s\n", label, *l.StaticBPC, l.BPC, tail)
		return
	}
	p.printf("%s  %6.3f%s\n", label, l.BPC, tail)
}

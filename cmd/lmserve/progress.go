package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lmserve/lmserve/internal/arithmetic/setting"
)

// quietName is the flag that leaves progress out.
const quietName = "quiet"

// How often progress is told. Work that is done within the first of these is not spoken of.
var (
	progressFirst = 2 * time.Second
	progressLines = 10 * time.Second       // between two lines
	progressDraws = 200 * time.Millisecond // between two states of a bar
)

// progress tells on standard error how far a piece of work is, and how long it will still take: as
// a bar on a terminal, and elsewhere as a line now and then. All methods may be called at once. Its
// end must be called.
type progress struct {
	w        io.Writer
	terminal bool
	label    string
	began    time.Time

	mu struct {
		sync.Mutex
		done, total int64     // total 0: nobody knows
		from        int64     // done when it was told first
		since       time.Time // when done was told first; zero: never
		what        string    // is being done
		unit        string    // what done and total count; "": bytes
		bar         *progressbar.ProgressBar
	}
	ended chan struct{}
	gone  sync.WaitGroup
	once  sync.Once
}

// newProgress begins to tell of work that is measured in bytes. It says nothing with --quiet.
func newProgress(c *cobra.Command, label string) *progress { return newProgressOf(c, label, "") }

// newProgressOf begins to tell of work that is measured in another unit, given in the singular.
func newProgressOf(c *cobra.Command, label, unit string) *progress {
	p := &progress{
		w: c.ErrOrStderr(), terminal: isTerminal(c.ErrOrStderr()), label: label,
		began: time.Now(), ended: make(chan struct{}),
	}
	p.mu.unit = unit
	if quiet, _ := c.Flags().GetBool(quietName); !quiet {
		p.gone.Add(1)
		go p.tellOn()
	}
	return p
}

// isTerminal reports whether a writer goes to a terminal that can be drawn on: a dumb one takes no
// escapes.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// set notes how much of the work is done, and how much there is: 0 if nobody knows.
func (p *progress) set(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.since.IsZero() {
		p.mu.since, p.mu.from = time.Now(), done
	}
	p.mu.done, p.mu.total = done, total
}

func (p *progress) say(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.what = what
}

// begin begins another part of the work, which is measured anew, in bytes.
func (p *progress) begin(what string) { p.beginOf(what, "") }

// beginOf begins one that is measured in another unit.
func (p *progress) beginOf(what, unit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.what, p.mu.unit = what, unit
	p.mu.done, p.mu.total, p.mu.since = 0, 0, time.Time{}
	p.clearLocked()
	p.mu.bar = nil // another unit is another bar
}

// parts returns a function that is told of each part of the work by what is being done.
func (p *progress) parts() func(what string, done, total int64) {
	doing := ""
	return func(what string, done, total int64) {
		if what != doing {
			p.begin(what)
			doing = what
		}
		p.set(done, total)
	}
}

// reading returns a reader of a file of so many bytes (0: nobody knows) that tells how far it is.
// What follows the end of the file is measured by time alone.
func (p *progress) reading(ctx context.Context, in io.Reader, bytes int64) io.Reader {
	return &progressReader{&patientReader{ctx: ctx, in: in}, p, 0, bytes}
}

type progressReader struct {
	in          *patientReader
	p           *progress
	done, total int64
}

// Read implements io.Reader. The end of the context is an error.
func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if r.done += int64(n); r.done >= r.total || err != nil {
		r.total = 0
	}
	r.p.set(r.done, r.total)
	return n, err
}

// progressWriter shows how much was written, until its context ends.
type progressWriter struct {
	ctx         context.Context
	w           io.Writer
	done, total int64
	set         func(done, total int64)
}

func (p *progressWriter) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.w.Write(b)
	p.done += int64(n)
	p.set(p.done, p.total)
	return n, err
}

// beside returns a writer to the same terminal that has the bar out of its way.
func (p *progress) beside(w io.Writer) io.Writer {
	return writerFunc(func(text []byte) (n int, err error) {
		p.aside(func() { n, err = w.Write(text) })
		return n, err
	})
}

// aside calls do, which writes to the terminal, too, with the bar out of its way.
func (p *progress) aside(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked()
	do()
}

// end ends the telling, and takes the bar away.
func (p *progress) end() {
	p.once.Do(func() {
		close(p.ended)
		p.gone.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.clearLocked()
	})
}

func (p *progress) clearLocked() {
	if p.mu.bar != nil {
		_ = p.mu.bar.Clear() // an error of the bar is no reason to stop
	}
}

func (p *progress) tellOn() {
	defer p.gone.Done()
	wait := progressFirst
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(wait):
		}
		if p.terminal {
			p.draw()
			wait = progressDraws
			continue
		}
		fmt.Fprintf(p.w, "lmserve: %s: %s\n", p.label, p.line())
		wait = progressLines
	}
}

// draw draws the bar, which has a clock of its own for the time left.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := p.mu.total
	if total == 0 {
		total = -1 // a spinner
	}
	if p.mu.bar == nil {
		p.mu.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.w),
			progressbar.OptionShowBytes(p.mu.unit == ""), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionFullWidth())
	}
	if p.mu.bar.GetMax64() != total {
		p.mu.bar.ChangeMax64(total)
	}
	p.mu.bar.Describe(p.label + orWord(" "+p.mu.what, p.mu.what == "", "") + ", " + p.timeLocked())
	_ = p.mu.bar.Set64(p.mu.done)
}

func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text string
	switch {
	case p.mu.total > 0:
		text = fmt.Sprintf("%d %% of %s, ", 100*p.mu.done/p.mu.total, p.amountLocked(p.mu.total))
	case p.mu.done > 0:
		text = p.amountLocked(p.mu.done) + ", "
	}
	return orWord(p.mu.what+", ", p.mu.what == "", "") + text + p.timeLocked()
}

// amountLocked writes a number in the unit.
func (p *progress) amountLocked(n int64) string {
	if p.mu.unit == "" {
		return humanize.IBytes(uint64(max(0, n)))
	}
	return setting.Count(int(n), p.mu.unit)
}

// timeLocked says how long the work will still take, if that can be known, or has taken so far.
func (p *progress) timeLocked() string {
	done, total := p.mu.done-p.mu.from, p.mu.total-p.mu.from
	if done > 0 && total >= done {
		each := time.Since(p.mu.since) / time.Duration(done)
		return (each * time.Duration(total-done)).Round(time.Second).String() + " left"
	}
	return time.Since(p.began).Round(time.Second).String() + " so far"
}

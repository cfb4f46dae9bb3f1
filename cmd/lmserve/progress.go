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

const quietName = "quiet"

// Work that ends before progressFirst is not reported. progressLines is the interval between
// printed lines. progressDraws is the interval between redraws of a progress bar.
var (
	progressFirst = 2 * time.Second
	progressLines = 10 * time.Second
	progressDraws = 200 * time.Millisecond
)

// progress reports on standard error how much work is done and how long the rest will take. It
// draws a bar on a terminal; otherwise it prints occasional lines. All methods may be called
// concurrently. The caller must call end.
type progress struct {
	w        io.Writer
	terminal bool
	label    string
	began    time.Time

	mu struct {
		sync.Mutex
		done, total int64 // a total of 0 means unknown
		from        int64
		since       time.Time // the time of the first report, or zero before the first report
		what        string
		unit        string // unit of done and total; "" means bytes
		bar         *progressbar.ProgressBar
	}
	ended chan struct{}
	gone  sync.WaitGroup
	once  sync.Once
}

// newProgress starts reporting work measured in bytes. It reports nothing with --quiet.
func newProgress(c *cobra.Command, label string) *progress { return newProgressOf(c, label, "") }

// newProgressOf starts reporting work that is measured in a unit other than bytes, such as
// "session".
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

// isTerminal reports whether a writer is a terminal that accepts escape sequences. A dumb terminal
// accepts none.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// set records how much work is done, and the total; 0 means unknown.
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

// begin starts another part of the work, with its own total in bytes.
func (p *progress) begin(what string) { p.beginOf(what, "") }

func (p *progress) beginOf(what, unit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.what, p.mu.unit = what, unit
	p.mu.done, p.mu.total, p.mu.since = 0, 0, time.Time{}
	p.clearLocked()
	p.mu.bar = nil // a bar keeps its unit, so a new bar is needed
}

// parts returns a function that records progress. It begins a new part of the work whenever the
// argument what changes.
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

// reading returns a reader of a file that reports progress. The parameter bytes is the file's size;
// 0 means unknown. Work after the end of the file is reported without an estimate.
func (p *progress) reading(ctx context.Context, in io.Reader, bytes int64) io.Reader {
	return &progressReader{&patientReader{ctx: ctx, in: in}, p, 0, bytes}
}

type progressReader struct {
	in          *patientReader
	p           *progress
	done, total int64
}

func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if r.done += int64(n); r.done >= r.total || err != nil {
		r.total = 0
	}
	r.p.set(r.done, r.total)
	return n, err
}

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

// beside returns a writer to the progress bar's terminal. Each write first clears the bar.
func (p *progress) beside(w io.Writer) io.Writer {
	return writerFunc(func(text []byte) (n int, err error) {
		p.aside(func() { n, err = w.Write(text) })
		return n, err
	})
}

// aside clears the progress bar and then calls the function `do`, which writes to the same
// terminal.
func (p *progress) aside(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked()
	do()
}

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
		_ = p.mu.bar.Clear() // an error of the bar must not stop the work
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

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := p.mu.total
	if total == 0 {
		total = -1 // -1 makes the bar a spinner
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

func (p *progress) amountLocked(n int64) string {
	if p.mu.unit == "" {
		return humanize.IBytes(uint64(max(0, n)))
	}
	return setting.Count(int(n), p.mu.unit)
}

// timeLocked returns the estimated remaining time or, if there is no estimate, the elapsed time.
func (p *progress) timeLocked() string {
	done, total := p.mu.done-p.mu.from, p.mu.total-p.mu.from
	if done > 0 && total >= done {
		each := time.Since(p.mu.since) / time.Duration(done)
		return (each * time.Duration(total-done)).Round(time.Second).String() + " left"
	}
	return time.Since(p.began).Round(time.Second).String() + " so far"
}

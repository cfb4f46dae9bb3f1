package train

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const (
	barInterval  = 200 * time.Millisecond // between two pictures of the bar
	lineInterval = 15 * time.Second       // between two lines where there is no terminal
	lineFirst    = 3 * time.Second        // until the first of these: it has the first estimate of the time left
)

// progress tells a person how a phase is going: a live bar on a terminal, a line now and then elsewhere. The zero value is silent.
type progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil where w is not a terminal
	phase string
	steps int

	started time.Time // of this run, at step from
	from    int
	shown   time.Time
	wait    time.Duration // until something is shown next
}

// newProgress returns the progress of a phase that stands at step from of steps.
func newProgress(w io.Writer, phase string, from, steps int) *progress {
	now := time.Now()
	p := &progress{w: w, phase: phase, steps: steps, started: now, from: from, shown: now, wait: lineFirst}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(steps,
			progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(phase),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionUseANSICodes(true), progressbar.OptionSetWidth(20))
		p.wait = barInterval
		_ = p.bar.Set(from) // a picture that fails to be drawn is no reason to stop
	}
	return p
}

// due tells whether it is time to show something after a step.
func (p *progress) due(now time.Time) bool {
	if p.w == nil {
		return false
	}
	return now.Sub(p.shown) >= p.wait
}

// show reports that step steps are done, with the running mean of the loss in nats a token. The time left is the mean time of this run's
// steps times the steps that remain.
func (p *progress) show(now time.Time, step int, loss, tokensPerSec float64) {
	p.shown, p.wait = now, lineInterval
	left := time.Duration(float64(now.Sub(p.started)) / float64(step-p.from) * float64(p.steps-step))
	text := fmt.Sprintf("loss %.4f  bpc %.4f  %.0f tokens/s  %s left", loss, loss*bitsPerNat, tokensPerSec, left.Round(time.Second))
	if p.bar == nil {
		fmt.Fprintf(p.w, "%s step %d/%d  %s\n", p.phase, step, p.steps, text)
		return
	}
	p.wait = barInterval
	p.bar.Describe(p.phase + "  " + text)
	_ = p.bar.Set(step)
}

// note prints a line of its own, above the bar if there is one.
func (p *progress) note(format string, args ...any) {
	if p.w == nil {
		return
	}
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.w, format+"\n", args...)
	if p.bar != nil {
		_ = p.bar.RenderBlank()
	}
}

// end shows the last step and leaves the line of the bar.
func (p *progress) end(step int) {
	if p.bar != nil {
		_ = p.bar.Set(step)
		_ = p.bar.Exit()
		fmt.Fprintln(p.w)
	}
}

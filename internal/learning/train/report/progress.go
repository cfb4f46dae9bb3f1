package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/lmserve/lmserve/internal/learning/train"
)

const (
	barInterval  = 200 * time.Millisecond
	lineInterval = 15 * time.Second // time between two lines if there is no terminal
	// lineFirst is the time before the first line, which shows the first estimate of the remaining
	// time.
	lineFirst = 3 * time.Second
)

// progress shows the progress of a run: a live bar on a terminal, otherwise a line from time to
// time.
type progress struct {
	w    io.Writer
	plan []plannedPhase
	pace pace
	unit train.Unit

	// The following fields describe the current phase.
	bar     *progressbar.ProgressBar // nil if w is not a terminal
	from    int                      // step at which this process began the phase
	started time.Time
	shown   time.Time
	wait    time.Duration
}

type plannedPhase struct {
	name string
	time time.Duration
}

// Observe prints events that are of interest to people.
func (p *progress) Observe(e train.Event) error {
	switch e := e.(type) {
	case train.Opened:
		p.unit = e.Unit
	case train.Noted:
		p.say("%s", e.Text)
	case train.Planned:
		return p.planned(e)
	case train.Ready:
		p.ready()
	case train.Begun:
		p.begin(e.Standing, time.Now())
	case train.Stepped:
		p.stepped(e, time.Now())
	case train.Validated:
		p.pace.pause(e.Took)
		mark := ""
		if e.Best {
			mark = "  (best)"
		}
		p.say("%s step %d  %s%s", e.Phase, e.Step, e.Measurement, mark)
	case train.Ended:
		if e.Err == nil && e.Step < e.Steps {
			p.say("%s ends at step %d of %d: %d validations without improvement", e.Phase, e.Step,
				e.Steps, e.Stale)
		}
		p.end(e.Step)
	}
	return nil
}

// say prints a line, above the bar if there is one.
func (p *progress) say(format string, args ...any) {
	if p.bar != nil {
		_ = p.bar.Clear() // an error in the display must not stop the training
	}
	fmt.Fprintf(p.w, format+"\n", args...)
	if p.bar != nil {
		_ = p.bar.RenderBlank()
	}
}

func (p *progress) planned(e train.Planned) error {
	p.say("%s: %s; %s steps, %s done", e.Phase, e.Description, humanize.Comma(int64(e.Steps)),
		humanize.Comma(int64(e.Made)))
	spent, err := e.Estimate()
	p.plan = append(p.plan, plannedPhase{e.Phase, spent})
	return err
}

func (p *progress) ready() {
	var total time.Duration
	var parts []string
	for _, phase := range p.plan {
		total += phase.time
		parts = append(parts, phase.name+" "+roundly(phase.time))
	}
	if len(parts) == 1 {
		p.say("estimated time: %s", roundly(total))
	} else {
		p.say("estimated time: %s (%s)", roundly(total), strings.Join(parts, ", "))
	}
}

func (p *progress) begin(at train.Standing, now time.Time) {
	p.from, p.started, p.shown, p.wait = at.Step, now, now, lineFirst
	if f, ok := p.w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bar = progressbar.NewOptions(at.Steps,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(at.Phase),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionUseANSICodes(true), progressbar.OptionSetWidth(20))
		p.wait = barInterval
		_ = p.bar.Set(at.Step)
	}
	if at.Step > 0 {
		p.say("%s continues after step %d", at.Phase, at.Step)
	} else {
		p.say("%s begins", at.Phase)
	}
	p.pace.start(now)
}

func (p *progress) stepped(e train.Stepped, now time.Time) {
	due := p.pace.add(e)
	if now.Sub(p.shown) >= p.wait {
		p.show(e.Standing, now)
	}
	if due {
		p.pace.start(now)
	}
}

// show prints the phase's progress. The remaining time is estimated from the mean time of the steps
// that this process has made.
func (p *progress) show(at train.Standing, now time.Time) {
	p.shown, p.wait = now, lineInterval
	left := time.Duration(float64(now.Sub(p.started)) / float64(at.Step-p.from) * float64(
		at.Steps-at.Step))
	text := fmt.Sprintf("loss %.4f  %s %s  %.0f tokens/s  %s left",
		at.Loss, p.unit.Short, p.unit.Text(at.Loss*train.BitsPerNat), p.pace.tokensPerSec(now),
		left.Round(time.Second))
	if p.bar == nil {
		fmt.Fprintf(p.w, "%s step %d/%d  %s\n", at.Phase, at.Step, at.Steps, text)
		return
	}
	p.wait = barInterval
	p.bar.Describe(at.Phase + "  " + text)
	_ = p.bar.Set(at.Step)
}

func (p *progress) end(step int) {
	if p.bar != nil {
		_ = p.bar.Set(step)
		_ = p.bar.Exit()
		fmt.Fprintln(p.w)
		p.bar = nil
	}
}

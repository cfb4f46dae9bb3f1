package train

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lmserve/lmserve/txl"
)

// How often and how long a step of a phase is tried, and on how much text a validation.
const (
	rehearsals     = 4
	rehearsalTime  = 500 * time.Millisecond
	rehearsalBytes = 1024
)

// prepare makes every phase that is left once, so that what is wrong with a later one is known before the first has run for hours, tells a
// person what the run will do and, having tried a few steps on this machine, how long it will take. It changes nothing.
func (r *run) prepare(ctx context.Context, names []string) error {
	r.note("%s", r.describeText())
	var total time.Duration
	var parts []string
	for i, name := range names {
		steps := 0
		if i == 0 {
			steps = r.at.Step
		}
		spent, err := r.rehearse(ctx, name, steps)
		if err != nil {
			return err
		}
		total += spent
		parts = append(parts, name+" "+roundly(spent))
	}
	switch {
	case r.o.Progress == nil:
		return nil
	case len(parts) == 1:
		r.note("this will take about %s here", roundly(total))
	default:
		r.note("this will take about %s here: %s", roundly(total), strings.Join(parts, ", "))
	}
	if r.o.Dir == "" {
		r.note("without a folder for checkpoints an interruption loses everything")
	}
	return nil
}

// describeText says what is read.
func (r *run) describeText() string {
	text := fmt.Sprintf("text: %s in %s", r.text.describe(), r.o.Data)
	if len(r.o.HoldOut) > 0 {
		text += ", of which pretraining does not see " + strings.Join(r.o.HoldOut, ", ")
	}
	switch {
	case r.valid == nil:
		return text + "; no validation"
	case r.keptBack:
		return text + "; validation on " + r.valid.text.describe() + ", kept back from it"
	}
	return text + "; validation on " + r.valid.text.describe() + " in " + r.o.Valid
}

func (c *Corpus) describe() string {
	return fmt.Sprintf("%s bytes in %s and %s", count(c.Bytes()), plural(len(c.Documents), "file"), plural(len(c.Domains()), "domain"))
}

// rehearse makes a phase and throws it away. If somebody is to be told, it makes a few steps on a copy of the model and returns the time
// that the phase's steps after the given one will take, validations and all.
func (r *run) rehearse(ctx context.Context, name string, from int) (spent time.Duration, err error) {
	copied := *r
	base := *r.base
	if base.LM, err = txl.NewModel(base.LM.Config); err != nil {
		return 0, err
	}
	copy(base.LM.W, r.base.LM.W)
	copied.base = &base
	p, err := copied.newPhase(name)
	if err != nil {
		return 0, err
	}
	defer p.close()
	if r.o.Progress == nil {
		return 0, nil
	}
	r.note("%s: %s; %s steps, %s made", name, p.describe(), count(p.length()), count(from))
	step, err := timed(func() error { _, err := p.step(); return err })
	if err != nil {
		return 0, err
	}
	spent = step * time.Duration(p.length()-from)
	if r.valid != nil {
		times := p.length()/r.validationEvery(p) - from/r.validationEvery(p)
		one, err := copied.timeValidation(ctx, p)
		if err != nil {
			return 0, err
		}
		spent += one * time.Duration(max(1, times))
	}
	return spent, nil
}

// timed is the shortest of the times that a few calls take; there are fewer if they take long.
func timed(call func() error) (best time.Duration, err error) {
	for i, begin := 0, time.Now(); i < rehearsals && (i == 0 || time.Since(begin) < rehearsalTime); i++ {
		start := time.Now()
		if err := call(); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// timeValidation is the time of one validation, from that of a small part of its text.
func (r *run) timeValidation(ctx context.Context, p phase) (time.Duration, error) {
	m, err := r.model(p.learner())
	if err != nil {
		return 0, err
	}
	doc := r.valid.text.Documents[0]
	doc.Text = doc.Text[:min(len(doc.Text), rehearsalBytes)]
	small := *r.valid
	small.text = &Corpus{Documents: []Document{doc}}
	took, err := timed(func() error {
		_, err := small.measure(ctx, m, nil)
		return err
	})
	if err != nil && ctx.Err() == nil { // the loop will see to an interruption
		return 0, err
	}
	return time.Duration(float64(took) / float64(len(doc.Text)) * float64(r.valid.text.Bytes())), nil
}

func count(n int) string { return grouped(strconv.Itoa(n)) }

// grouped sets commas between the thousands of a number.
func grouped(digits string) string {
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}

// roundly is a time as a person would say it.
func roundly(d time.Duration) string {
	switch {
	case d < time.Second:
		return "1 s"
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()+.5))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()+.5))
	}
	minutes := int(d.Minutes() + .5)
	return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
}

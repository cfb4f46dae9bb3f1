package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// queueMost is the maximum number of alerts that wait for a receiver. When the queue is full, a
	// new alert drops the oldest alert.
	queueMost = 256
	// pauseMost is the longest pause between two tries, before random variation.
	pauseMost = time.Minute
	// sendMost is the time limit of one try to send alerts.
	sendMost = 30 * time.Second
	// textMost is the time limit for reading the text before a line.
	textMost = 5 * time.Second

	beforeBytes = 1 << 10 // number of bytes that are read before the alert's line
	beforeLines = 3       // maximum number of lines in an alert before the alert's line
)

// queue holds the alerts that wait for a receiver. The receiver gets them in order, one at a time.
type queue struct {
	*Receiver
	n     *Notifier
	ready chan struct{} // wakes the method run when alerts were added; has a capacity of 1
	// whether the last try failed, and its failure was reported; only run uses this field, so it
	// needs no lock
	trouble bool

	mu      sync.Mutex
	alerts  []Alert
	dropped bool // whether the loss of an alert was reported since the last success
}

func newQueue(n *Notifier, r *Receiver) *queue {
	return &queue{Receiver: r, n: n, ready: make(chan struct{}, 1)}
}

func (q *queue) all() []Alert {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.alerts)
}

func (q *queue) count(outcome string) {
	if q.n.o.Count != nil {
		q.n.o.Count.Alert(q.kind, outcome)
	}
}

// put appends alerts. It never waits: if the queue is full, the oldest alerts are dropped.
func (q *queue) put(alerts ...Alert) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.alerts)
	q.alerts = append(q.alerts, alerts...)
	for len(q.alerts) > queueMost {
		q.alerts = q.alerts[1:]
		q.count(dropped)
		if !q.dropped {
			q.dropped = true
			q.n.o.Note(fmt.Errorf("alerts: %s: the queue is full with %d alerts; the oldest are "+
				"dropped", q, queueMost))
		}
	}
	q.waitingLocked(len(q.alerts) - before)
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *queue) waitingLocked(more int) {
	if q.n.o.Count != nil {
		q.n.o.Count.AlertsWaiting(q.kind, more)
	}
}

func (q *queue) first() (a Alert, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.alerts) == 0 {
		return a, false
	}
	return q.alerts[0], true
}

// remove removes an alert, unless the full queue has already dropped it.
func (q *queue) remove(id string) {
	q.mu.Lock()
	if len(q.alerts) > 0 && q.alerts[0].ID == id {
		q.alerts = q.alerts[1:]
		q.waitingLocked(-1)
	}
	q.dropped = false
	q.mu.Unlock()
	q.n.store.changed()
}

// run sends alerts until ctx ends. If the receiver needs reminders, run also repeats the alerts of
// open incidents.
func (q *queue) run(ctx context.Context) {
	remind := make(<-chan time.Time)
	if q.every > 0 {
		ticker := time.NewTicker(q.every)
		defer ticker.Stop()
		remind = ticker.C
	}
	for {
		if a, ok := q.first(); ok {
			if !q.deliver(ctx, a) {
				return
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-q.ready:
		// Reminders are sent only while no alert waits. So no reminder of an incident follows the
		// alert of its end.
		case <-remind:
			if all := q.n.firing(); len(all) > 0 {
				q.repeat(ctx, all)
			}
		}
	}
}

// repeat sends the alerts of open incidents again. The next reminder follows a failed one.
func (q *queue) repeat(ctx context.Context, all []Alert) {
	switch err := q.try(ctx, all); {
	case err == nil:
		q.accepted()
	case ctx.Err() == nil:
		q.count(failed)
		q.troubled("a reminder of open alerts failed: %w", err)
	}
}

// deliver sends an alert repeatedly until the receiver accepts or refuses the alert. If ctx ends
// first, deliver returns false.
func (q *queue) deliver(ctx context.Context, a Alert) bool {
	q.n.addText(ctx, &a)
	pauses := backoff.NewExponentialBackOff()
	pauses.MaxInterval = pauseMost
	if q.pause > 0 {
		pauses.InitialInterval = q.pause
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, q.try(ctx, []Alert{a})
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, _ time.Duration) {
			q.count(failed)
			q.troubled("%w; alerts stay in the queue and are retried", err)
		}))
	switch {
	case err != nil && ctx.Err() != nil:
		return false
	case err != nil:
		q.count(refused)
		q.troubled("an alert was refused and is dropped: %w", err)
	default:
		q.count(sent)
		q.accepted()
	}
	q.remove(a.ID)
	return true
}

// accepted reports the first success since a reported failure.
func (q *queue) accepted() {
	if q.trouble {
		q.trouble = false
		q.n.o.Note(fmt.Errorf("alerts: %s accepts alerts again", q))
	}
}

// troubled reports the first failure since the last success.
func (q *queue) troubled(format string, err error) {
	if !q.trouble {
		q.trouble = true
		q.n.o.Note(fmt.Errorf("alerts: %s: "+format, q, err))
	}
}

func (q *queue) try(ctx context.Context, alerts []Alert) error {
	ctx, cancel := context.WithTimeout(ctx, sendMost)
	defer cancel()
	err := q.send(ctx, alerts)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", sendMost)
	}
	return err
}

// addText adds the lines before an alert's line.
func (n *Notifier) addText(ctx context.Context, a *Alert) {
	if n.o.Text == nil || a.Line == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, textMost)
	defer cancel()
	from := max(0, a.Line.Offset-beforeBytes)
	text, err := n.o.Text(ctx, a.Session.ID, from, a.Line.Offset-from)
	if err != nil {
		return // the session may be deleted, or its text trimmed
	}
	if from > 0 { // the first line is incomplete
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	line := *a.Line // a copy, because other queues share the line
	line.Before = lastLines(string(text))
	a.Line = &line
}

func lastLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.ToValidUTF8(strings.TrimRight(line, "\r\n"), "\uFFFD"))
	}
	return lines[max(0, len(lines)-beforeLines):]
}

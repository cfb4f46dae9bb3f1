package alert

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

const (
	// openMost is the most open incidents to remember; beyond that the one without news for longest
	// ends.
	openMost = 1024
	// lapse is how long an incident may be without news. Later lines close an incident: if the log
	// has stopped, none would ever end.
	lapse = 24 * time.Hour
	// tidyEvery is how often the Notifier looks for lapsed incidents.
	tidyEvery = time.Minute
)

// Options configure a Notifier.
type Options struct {
	Receivers []*Receiver
	Threshold float64 // the largest p of an incident with an alert; a change always has one
	File      string  // keeps open incidents and waiting alerts; "": only in memory
	// Text reads text of a session; nil: alerts lack the lines before theirs.
	Text func(ctx context.Context, session string, offset, length int64) ([]byte, error)
	// Note gets messages for the operator: a failure once, not at each try.
	Note  func(error)
	Count Counter // may be nil
}

// Counter counts outcomes of alerts. A receiver is one of the kinds of receivers.
type Counter interface {
	// Alert counts an alert that was sent, refused or dropped, or a failed try.
	Alert(receiver, outcome string)
	// AlertsWaiting counts alerts that were put into a queue or, if negative, taken from one. A
	// receiver begins with 0.
	AlertsWaiting(receiver string, more int)
}

// Outcomes of an alert. After failed another one follows.
const (
	sent    = "sent"
	refused = "refused" // refused by the receiver, for good
	dropped = "dropped" // the queue was full
	failed  = "failed"  // one try has failed; another follows
)

// Notifier sends incidents to receivers. Its methods are safe for concurrent use; only Close and
// Kept wait.
type Notifier struct {
	o      Options
	store  *store
	queues []*queue
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu   sync.Mutex
	open map[string]*opened // by Alert.IncidentID
	// again has the last incidents whose end was delivered. An incident that alerts again, as after
	// a revoked verdict, gets another id. With the same id, receivers would take it for a repeat.
	again map[string]bool
}

// opened is an open incident with an alert.
type opened struct {
	Alert Alert     `json:"alert"` // the opening alert, with the current data
	News  time.Time `json:"news"`  // time of its last news
}

// Start starts a Notifier, which continues from its file.
func Start(o Options) (*Notifier, error) {
	n := &Notifier{o: o, open: map[string]*opened{}, again: map[string]bool{}}
	for _, r := range o.Receivers {
		n.queues = append(n.queues, newQueue(n, r))
	}
	n.store = newStore(o.File, o.Note, n.kept)
	had, err := n.store.read()
	if err != nil {
		return nil, err
	}
	for _, i := range had.Open {
		n.open[i.Alert.IncidentID] = &i
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	for _, q := range n.queues {
		q.put(had.Waiting[q.key()]...)
		n.ended.Go(func() { q.run(ctx) })
	}
	n.endSilences()
	n.ended.Go(func() { n.tidy(ctx) })
	return n, nil
}

// Close waits up to patience for the delivery of waiting alerts. With a file, the rest is delivered
// after the next Start; without one, Close returns the number of lost alerts.
func (n *Notifier) Close(patience time.Duration) (lost int) {
	until := time.Now().Add(patience)
	for n.waiting() > 0 && time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond)
	}
	n.stop()
	n.ended.Wait()
	n.store.close()
	if n.o.File == "" {
		lost = n.waiting()
	}
	return lost
}

// Incident handles news of an incident at a line; nil: the line is not known.
func (n *Notifier) Incident(of Session, source string, i *api.Incident, l *Line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takeLocked(of, source, i, l)
}

// Incidents handles all incidents that a session remembers, after its state was restored or it was
// deleted. Incidents without an alert get one, and those that are no longer open end.
func (n *Notifier) Incidents(of Session, source string, all []api.Incident) {
	n.mu.Lock()
	defer n.mu.Unlock()
	here := map[string]bool{}
	for i := range slices.Backward(all) { // the oldest first
		here[incidentID(of.ID, &all[i])] = true
		n.takeLocked(of, source, &all[i], nil)
	}
	for id, o := range n.open {
		if o.Alert.Session.ID == of.ID && !here[id] {
			n.resolveLocked(id)
		}
	}
}

// Left forgets the incidents of a session that another server has now.
func (n *Notifier) Left(session string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if o.Alert.Session.ID == session {
			delete(n.open, id)
		}
	}
}

// Line handles a strange line, if lines are not grouped into incidents.
func (n *Notifier) Line(of Session, source string, l *api.LineEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellLocked(ofLine(of, source, l, time.Now().UTC()))
}

// Silence handles a log without a line since a time, although a shorter gap is already unusual.
func (n *Notifier) Silence(of Session, source string, since time.Time, unusual time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := ofSilence(of, source, since, unusual)
	n.open[a.IncidentID] = &opened{a, time.Now().UTC()}
	n.tellLocked(a)
}

// endSilences ends those of the file: a log that is watched again is silent only after its next
// line.
func (n *Notifier) endSilences() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if o.Alert.Kind == KindSilence {
			n.resolveLocked(id)
		}
	}
}

// Heard ends the silence of a log, if there was one.
func (n *Notifier) Heard(of Session, source string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if o.Alert.Kind == KindSilence && o.Alert.Session.ID == of.ID && o.Alert.Source == source {
			n.resolveLocked(id)
		}
	}
}

// Kept waits until all news so far is in the file, or could not be written.
func (n *Notifier) Kept() { n.store.wait() }

func (n *Notifier) takeLocked(of Session, source string, i *api.Incident, l *Line) {
	id := incidentID(of.ID, i)
	now := time.Now().UTC()
	over := i.State != api.IncidentOpen || i.Verdict != nil && *i.Verdict == api.VerdictFalseAlarm
	switch o := n.open[id]; {
	case o != nil && over:
		o.Alert.describe(i)
		n.resolveLocked(id)
	case o != nil:
		o.Alert.describe(i)
		o.News = now
	case !over && watch.Worth(i, n.o.Threshold):
		if len(n.open) >= openMost {
			n.resolveLocked(n.oldestLocked())
		}
		a := ofIncident(of, source, i, l, now)
		if n.again[id] {
			a.ID = idOf(a.ID, now.UnixNano())
		}
		n.open[id] = &opened{a, now}
		n.tellLocked(a)
	}
}

func (n *Notifier) resolveLocked(id string) {
	a := n.open[id].Alert
	delete(n.open, id)
	if len(n.again) >= openMost {
		clear(n.again)
	}
	n.again[id] = true
	n.tellLocked(a.resolved(time.Now().UTC()))
}

// tellLocked puts an alert into all queues.
func (n *Notifier) tellLocked(a Alert) {
	for _, q := range n.queues {
		q.put(a)
	}
	n.store.changed()
}

// oldestLocked returns the incident without news for longest.
func (n *Notifier) oldestLocked() (oldest string) {
	for id, o := range n.open {
		if oldest == "" || o.News.Before(n.open[oldest].News) {
			oldest = id
		}
	}
	return oldest
}

// tidy ends lapsed incidents.
func (n *Notifier) tidy(ctx context.Context) {
	every := time.NewTicker(tidyEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			n.endBefore(now.Add(-lapse))
		}
	}
}

func (n *Notifier) endBefore(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if o.News.Before(at) && o.Alert.Kind != KindSilence { // which ends with a line alone
			n.resolveLocked(id)
		}
	}
}

// firing returns the alerts of all open incidents.
func (n *Notifier) firing() (all []Alert) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.open {
		all = append(all, o.Alert)
	}
	return all
}

func (n *Notifier) waiting() (all int) {
	for _, q := range n.queues {
		all += len(q.all())
	}
	return all
}

// kept returns the content for the file.
func (n *Notifier) kept() state {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := state{Version: stateVersion, Waiting: map[string][]Alert{}}
	for _, o := range n.open {
		s.Open = append(s.Open, *o)
	}
	for _, q := range n.queues {
		s.Waiting[q.key()] = q.all()
	}
	return s
}

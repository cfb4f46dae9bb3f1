package alert

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

const (
	// openMost is the maximum number of open incidents. At this limit, a new incident ends the open
	// incident without news for the longest time.
	openMost = 1024
	// lapse is the time without news after which an incident ends. Normally later lines close an
	// incident, but a stopped log has no later lines.
	lapse     = 24 * time.Hour
	tidyEvery = time.Minute
)

// Options configure a Notifier.
type Options struct {
	Receivers []*Receiver
	// limit of the rating p in watch.Worth, which decides which incidents get an alert
	Threshold float64
	// file for open incidents and waiting alerts; if File is empty, both are only in memory
	File string
	// Text reads a part of a session's text. If Text is nil, alerts lack the lines before the
	// strange line.
	Text func(ctx context.Context, session string, offset, length int64) ([]byte, error)
	// Note gets messages for the operator. A failure that repeats is reported only once.
	Note  func(error)
	Count Counter // may be nil
}

// Counter counts outcomes of alerts. The parameter receiver is a kind of receiver, such as webhook.
type Counter interface {
	// Alert counts an alert that was sent, refused or dropped, or a failed try.
	Alert(receiver, outcome string)
	// AlertsWaiting adds to the number of alerts in the queues of a kind of receiver. A negative
	// number says that alerts left a queue.
	AlertsWaiting(receiver string, more int)
}

// These are the outcomes of an alert. After `failed`, another outcome follows; the others are
// final.
const (
	sent    = "sent"
	refused = "refused" // the receiver refused the alert, which is not sent again
	dropped = "dropped" // the queue was full
	failed  = "failed"
)

// Notifier sends incidents to receivers. Its methods are safe for concurrent use. Only Close and
// Kept block.
type Notifier struct {
	o      Options
	store  *store
	queues []*queue
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu   sync.Mutex
	open map[string]*opened // by Alert.IncidentID
	// again has the ids of the most recently ended incidents. An incident that opens again, for
	// example after a revoked verdict, gets an alert with another id. With the old id, receivers
	// would take the new alert for a repeat. The value is true if only a new event of the incident
	// may open it again. Otherwise a list of incidents may open it, too.
	again map[string]bool
	// news reports whether open incidents have news that is not yet in the file. This news is
	// written with the next alert, or after tidyEvery, because many lines may join an incident.
	news bool
}

type opened struct {
	Alert Alert     `json:"alert"` // alert of the opening, with the incident's current data
	News  time.Time `json:"news"`  // time of the incident's last news
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
	maps.Copy(n.again, had.Ended)
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

// Close waits for the delivery of waiting alerts, at most for the time patience. With a file, the
// remaining alerts are delivered after the next Start. Without a file they are lost, and Close
// returns their number.
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

// Incident handles news of an incident at line l, which is nil if the line is not known. Waiting
// alerts refer to the incident and the line, so neither may change afterwards.
func (n *Notifier) Incident(of Session, source string, i *api.Incident, l *Line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takeLocked(of, source, i, l)
}

// Incidents handles all incidents that a session remembers, the newest first. It is called after
// the session's state was restored, and after the session was deleted. Each open incident without
// alert gets an alert, unless its alert was ended early. Alerts of incidents that are no longer
// open are ended. After a crash, watch passes the list of an earlier offset: then newer incidents
// stay open.
func (n *Notifier) Incidents(of Session, source string, all []api.Incident) {
	n.mu.Lock()
	defer n.mu.Unlock()
	here := map[string]bool{}
	for i := range slices.Backward(all) { // the oldest first
		id := n.idLocked(of, &all[i])
		here[id] = true
		if !n.again[id] || n.open[id] != nil {
			n.takeLocked(of, source, &all[i], nil)
		}
	}
	for id, o := range n.open {
		i := o.Alert.Incident // nil for a silence, which only a line ends
		if o.Alert.Session.ID != of.ID || here[id] || i == nil {
			continue
		}
		if newer := len(all) > 0 && i.Number > all[0].Number; !newer {
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
			n.store.changed()
		}
	}
}

// Line handles a strange line, if lines are not grouped into incidents.
func (n *Notifier) Line(of Session, source string, l *api.LineEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellLocked(ofLine(of, source, l, time.Now().UTC()))
}

// Silence handles a log that has had no line since the given time. The parameter unusual is the
// shortest gap between lines that is unusual for this log.
func (n *Notifier) Silence(of Session, source string, since time.Time, unusual time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.openLocked(ofSilence(of, source, since, unusual), time.Now().UTC())
}

// endSilences ends the silences that were open before a restart. After the restart, a log can be
// silent only after its next line.
func (n *Notifier) endSilences() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if o.Alert.Kind == KindSilence {
			n.resolveLocked(id)
		}
	}
}

// Heard ends the silence of a log, if the log was silent.
func (n *Notifier) Heard(of Session, source string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if o.Alert.Kind == KindSilence && o.Alert.Session.ID == of.ID && o.Alert.Source == source {
			n.resolveLocked(id)
		}
	}
}

// Kept waits until all alerts so far are in the file, or until writing the file has failed.
func (n *Notifier) Kept() { n.store.wait() }

func (n *Notifier) takeLocked(of Session, source string, i *api.Incident, l *Line) {
	id := n.idLocked(of, i)
	now := time.Now().UTC()
	over := i.State != api.IncidentOpen || i.Verdict != nil && *i.Verdict == api.VerdictFalseAlarm
	switch o := n.open[id]; {
	case o != nil && over:
		o.Alert.describe(i)
		n.resolveLocked(id)
	case o != nil:
		o.Alert.describe(i)
		o.News, n.news = now, true
	case !over && watch.Worth(i, n.o.Threshold):
		a := ofIncident(of, source, id, i, l, now)
		if _, ended := n.again[id]; ended {
			a.ID = idOf(a.ID, now.UnixNano())
		}
		n.openLocked(a, now)
	}
}

// idLocked returns the id of an incident. An incident from the file of an earlier version keeps its
// former id, because with another id it would get a second alert.
func (n *Notifier) idLocked(of Session, i *api.Incident) string {
	former := formerID(of.ID, i)
	if _, ended := n.again[former]; ended || n.open[former] != nil {
		return former
	}
	return incidentID(of.ID, i)
}

func (n *Notifier) openLocked(a Alert, now time.Time) {
	if len(n.open) >= openMost {
		n.endEarlyLocked(n.oldestLocked())
	}
	n.open[a.IncidentID] = &opened{a, now}
	n.tellLocked(a)
}

// endEarlyLocked ends an alert whose incident may still be open in its session.
func (n *Notifier) endEarlyLocked(id string) {
	n.resolveLocked(id)
	n.again[id] = true
}

func (n *Notifier) resolveLocked(id string) {
	a := n.open[id].Alert
	delete(n.open, id)
	if len(n.again) >= openMost {
		clear(n.again)
	}
	// the list of an earlier offset may still have a closed incident as open
	n.again[id] = a.Incident != nil && a.Incident.State != api.IncidentOpen
	n.tellLocked(a.resolved(time.Now().UTC()))
}

func (n *Notifier) tellLocked(a Alert) {
	for _, q := range n.queues {
		q.put(a)
	}
	n.store.changed()
}

func (n *Notifier) oldestLocked() (oldest string) {
	for id, o := range n.open {
		if oldest == "" || o.News.Before(n.open[oldest].News) {
			oldest = id
		}
	}
	return oldest
}

func (n *Notifier) tidy(ctx context.Context) {
	every := time.NewTicker(tidyEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			n.keepNews()
			return
		case now := <-every.C:
			n.endBefore(now.Add(-lapse))
			n.keepNews()
		}
	}
}

// keepNews writes the news of open incidents to the file, if the file lacks some.
func (n *Notifier) keepNews() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.news {
		n.store.changed()
	}
}

func (n *Notifier) endBefore(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, o := range n.open {
		if o.News.Before(at) && o.Alert.Kind != KindSilence { // only a new line ends a silence
			n.endEarlyLocked(id)
		}
	}
}

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

func (n *Notifier) kept() state {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.news = false
	s := state{
		Version: stateVersion, Waiting: map[string][]Alert{}, Ended: maps.Clone(n.again),
	}
	for _, o := range n.open {
		s.Open = append(s.Open, *o)
	}
	for _, q := range n.queues {
		s.Waiting[q.key()] = q.all()
	}
	return s
}

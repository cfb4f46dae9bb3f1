package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/serving/watch"
)

type incidentReport struct {
	open    []foundIncident
	printed []foundIncident // recently printed incidents, newest last

	silences map[string]*silence
}

// becomes reports whether i is a later state of the incident o. Equal incident numbers do not prove
// this: numbers repeat if a session does not learn or a stream restarts.
func (o *foundIncident) becomes(i *client.Incident) bool {
	return i.First == o.First && i.Lines >= o.Lines && i.Last >= o.Last && i.P <= o.P &&
		len(i.Changes) >= len(o.Changes) && (i.Lines > o.Lines || i.State != client.IncidentOpen)
}

const printedMost = 256 // number of printed incidents to which a user's answer can refer

// last returns the last printed incident with the given number. The number 0 matches every
// incident.
func (r *incidentReport) last(number int64) (i foundIncident, ok bool) {
	for n := len(r.printed) - 1; n >= 0; n-- {
		if number == 0 || r.printed[n].Number == number {
			return r.printed[n], true
		}
	}
	return i, false
}

type foundIncident struct {
	source string
	client.Incident
	shownP float64 // smallest rating p of the incident's printed lines
	shown  int64
	// an earlier run of watch printed the incident, and no line has joined the incident since
	before bool
	judged bool // the user has given a verdict, which later events may lack
}

// before records a session's open incidents that an earlier run of watch has printed.
func (r *lineReport) before(source string, list client.IncidentList) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range slices.Backward(list.Incidents) {
		isKnown := slices.ContainsFunc(r.incidents.open, func(o foundIncident) bool {
			return o.source == source && o.Number == i.Number
		})
		if i.State == client.IncidentOpen && watch.Worth(&i, r.threshold) && !isKnown {
			known := foundIncident{
				source: source, Incident: i, shownP: i.P, shown: i.Last, before: true,
			}
			r.incidents.open = append(r.incidents.open, known)
			r.incidents.printed = append(r.incidents.printed, known)
		}
	}
}

// stranger is a factor. A later line of an incident is printed if the line's rating p, times this
// factor, is smaller than all printed ratings of the incident.
const stranger = 2

// shownAgain is a distance in lines. A strange line that is farther than this from the incident's
// last printed line is printed, even if earlier lines were stranger.
const shownAgain = 64

// incidentsLocked prints the incidents that a line opens or closes. An incident is first printed
// when one of its lines is strange enough. The caller holds r.mu.
func (r *lineReport) incidentsLocked(f watch.Found) (shown bool, err error) {
	for _, i := range f.Line.Incidents {
		at := slices.IndexFunc(r.incidents.open, func(o foundIncident) bool {
			return o.source == f.Source && o.Number == i.Number
		})
		// open[at] is another incident with the same number
		if at >= 0 && !r.incidents.open[at].becomes(&i) {
			r.incidents.open = slices.Delete(r.incidents.open, at, at+1)
			at = -1
		}
		if at >= 0 && r.incidents.open[at].judged { // i may be older than the verdict
			i.Verdict = r.incidents.open[at].Verdict
		}
		switch {
		case at >= 0 && i.State != client.IncidentOpen:
			r.incidents.open = slices.Delete(r.incidents.open, at, at+1)
			if watch.Worth(&i, r.threshold) {
				err = r.closedLocked(foundIncident{source: f.Source, Incident: i})
			}
		case at >= 0:
			o := &r.incidents.open[at]
			more := i.Changes[len(o.Changes):]
			o.Incident, o.before = i, false
			again := i.Last == f.Line.Number && f.Line.P <= r.threshold &&
				f.Line.Number > o.shown+shownAgain
			switch {
			case !watch.Worth(&i, r.threshold): // since the user's verdict
			case i.P <= r.threshold && (i.P < o.shownP/stranger || again):
				o.shownP, o.shown, shown = i.P, f.Line.Number, true
				err = r.tellLocked(f, i, more)
			default:
				err = r.changedLocked(f.Source, i, more)
			}
		case i.State == client.IncidentOpen && i.Last == f.Line.Number &&
			watch.Worth(&i, r.threshold):
			found := foundIncident{source: f.Source, Incident: i, shownP: i.P, shown: i.Last}
			r.incidents.open = append(r.incidents.open, found)
			r.incidents.printed = append(r.incidents.printed, found)
			r.incidents.printed = r.incidents.printed[max(0, len(r.incidents.printed)-printedMost):]
			r.total.shown++
			shown = true
			err = r.tellLocked(f, i, i.Changes)
		}
		if err != nil {
			return shown, err
		}
	}
	return shown, nil
}

// incidentObject is the JSON form of an incident. Source is empty if there is only one source.
type incidentObject struct {
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	client.Incident
	Text string `json:"text,omitempty"`
}

func (r *lineReport) tellLocked(
	f watch.Found, i client.Incident, changes []client.IncidentChange,
) error {
	if r.asJSON {
		return r.incidentJSON(foundIncident{source: f.Source, Incident: i},
			string(f.Line.TextBytes()))
	}
	switch {
	case len(changes) == 0 || f.Line.P <= r.threshold:
		if err := r.labeledLocked(f, fmt.Sprintf("#%d", i.Number)); err != nil {
			return err
		}
	// A line that caused a change is printed with the change. A silence has no such line.
	case changes[0].Kind != client.ChangeSilence:
		prefix := r.source(f.Source) + fmt.Sprintf("%-8s  ", changes[0].Kind)
		text := bytes.TrimSuffix(f.Line.TextBytes(), []byte{'\r'})
		reason := fmt.Sprintf("#%d %s", i.Number, changes[0].Evidence)
		if _, err := io.WriteString(r.out, r.style.Show(prefix, text, nil, reason)); err != nil {
			return err
		}
		changes = changes[1:]
	}
	return r.changedLocked(f.Source, i, changes)
}

func (r *lineReport) changedLocked(source string, i client.Incident,
	more []client.IncidentChange) error {
	if r.asJSON {
		return nil // the JSON object of an incident already contains the changes
	}
	for _, c := range more {
		_, err := fmt.Fprintf(r.out, "%s%-8s  #%d %s\n", r.source(source), c.Kind, i.Number,
			c.Evidence)
		if err != nil {
			return err
		}
	}
	return nil
}

// closedLocked prints how many lines an incident has. As text, an incident of one line is not
// printed again, because that line was already printed.
func (r *lineReport) closedLocked(i foundIncident) error {
	switch {
	case r.asJSON:
		return r.incidentJSON(i, "")
	case i.Lines == 1:
		return nil
	}
	state := map[client.IncidentState]string{
		client.IncidentOpen: "so far", client.IncidentClosed: "closed",
		client.IncidentStays: "usual now",
	}[i.State]
	_, err := fmt.Fprintf(r.out, "%s%-8s  #%d %s: %s between %s and %s\n", r.source(i.source), "",
		i.Number, state, setting.Count(int(i.Lines), "line"), humanize.Comma(i.First),
		humanize.Comma(i.Last))
	return err
}

func (r *lineReport) incidentJSON(i foundIncident, text string) error {
	o := incidentObject{Type: "incident", Incident: i.Incident, Text: text}
	if r.sources {
		o.Source = i.source
	}
	return printObject(r.out, o)
}

// judged stores the user's verdict about an open incident; nil means no verdict.
func (r *lineReport) judged(source string, number int64, verdict *client.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.incidents.open {
		if i := &r.incidents.open[k]; i.source == source && i.Number == number {
			i.Verdict, i.judged = verdict, true
		}
	}
}

// openLocked prints the incidents that are open when watch ends.
func (r *lineReport) openLocked() error {
	slices.SortStableFunc(r.incidents.open, func(a, b foundIncident) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.Number, b.Number))
	})
	for _, i := range r.incidents.open {
		if i.before || !watch.Worth(&i.Incident, r.threshold) {
			continue
		}
		if err := r.closedLocked(i); err != nil {
			return err
		}
	}
	return nil
}

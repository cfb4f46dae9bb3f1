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

// incidentReport tracks printed and open incidents.
type incidentReport struct {
	open    []foundIncident
	printed []foundIncident // the last printed incidents, newest at the end

	silences map[string]*silence // keyed by source
}

// becomes reports whether i is a later state of the incident. Equal numbers alone are no proof:
// numbers recur if a session does not learn or a stream restarts.
func (o *foundIncident) becomes(i *client.Incident) bool {
	return i.First == o.First && i.Lines >= o.Lines && i.Last >= o.Last && i.P <= o.P &&
		len(i.Changes) >= len(o.Changes) && (i.Lines > o.Lines || i.State != client.IncidentOpen)
}

const printedMost = 256 // number of printed incidents that an answer may refer to

// last returns the last printed incident with a number. The number 0 matches every incident.
func (r *incidentReport) last(number int64) (i foundIncident, ok bool) {
	for n := len(r.printed) - 1; n >= 0; n-- {
		if number == 0 || r.printed[n].Number == number {
			return r.printed[n], true
		}
	}
	return i, false
}

// foundIncident is an incident of a source.
type foundIncident struct {
	source string
	client.Incident
	shownP float64 // p of the incident's strangest printed line
	shown  int64   // number of the incident's last printed line
	before bool    // printed by an earlier run of watch; no line has joined since
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
			known := foundIncident{source, i, i.P, i.Last, true}
			r.incidents.open = append(r.incidents.open, known)
			r.incidents.printed = append(r.incidents.printed, known)
		}
	}
}

// stranger is a factor: a later line of an incident is printed if its p is smaller than the p of
// all printed lines by this factor.
const stranger = 2

// shownAgain is a distance in lines. A strange line that is farther from the incident's last
// printed line is printed even if earlier lines were stranger.
const shownAgain = 64

// incidentsLocked prints the incidents that a line opens and closes. If the opening line is not
// strange enough, the incident is printed when a stranger line joins it.
func (r *lineReport) incidentsLocked(f watch.Found) (shown bool, err error) {
	for _, i := range f.Line.Incidents {
		at := slices.IndexFunc(r.incidents.open, func(o foundIncident) bool {
			return o.source == f.Source && o.Number == i.Number
		})
		if at >= 0 && !r.incidents.open[at].becomes(&i) { // open[at] is from an earlier session
			r.incidents.open = slices.Delete(r.incidents.open, at, at+1)
			at = -1
		}
		switch {
		case at >= 0 && i.State != client.IncidentOpen:
			r.incidents.open = slices.Delete(r.incidents.open, at, at+1)
			err = r.closedLocked(foundIncident{source: f.Source, Incident: i})
		case at >= 0:
			o := &r.incidents.open[at]
			more := i.Changes[len(o.Changes):]
			o.Incident, o.before = i, false
			again := i.Last == f.Line.Number && f.Line.P <= r.threshold &&
				f.Line.Number > o.shown+shownAgain
			if i.P <= r.threshold && (i.P < o.shownP/stranger || again) {
				o.shownP, o.shown, shown = i.P, f.Line.Number, true
				err = r.tellLocked(f, i, more)
			} else {
				err = r.changedLocked(f.Source, i, more)
			}
		case i.State == client.IncidentOpen && i.Last == f.Line.Number &&
			watch.Worth(&i, r.threshold):
			r.incidents.open = append(r.incidents.open, foundIncident{f.Source, i, i.P, i.Last,
				false})
			r.incidents.printed = append(r.incidents.printed, foundIncident{f.Source, i, i.P,
				i.Last, false})
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

// incidentObject is the JSON form of an incident. It has the source only if there are several
// sources.
type incidentObject struct {
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	client.Incident
	Text string `json:"text,omitempty"` // text of the line printed with the incident
}

// tellLocked prints an incident with its line and its changes.
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
	// the line caused the change and is printed with it; only a silence has no such line
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

// changedLocked prints changes that were added to an incident.
func (r *lineReport) changedLocked(source string, i client.Incident,
	more []client.IncidentChange) error {
	if r.asJSON {
		return nil // the JSON object of an incident already contains its changes
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

// closedLocked prints an incident's final number of lines. An incident with one line needs no such
// message, because its line was printed.
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

// openLocked prints the incidents that are open when watch ends.
func (r *lineReport) openLocked() error {
	slices.SortStableFunc(r.incidents.open, func(a, b foundIncident) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.Number, b.Number))
	})
	for _, i := range r.incidents.open {
		if i.before {
			continue
		}
		if err := r.closedLocked(i); err != nil {
			return err
		}
	}
	return nil
}

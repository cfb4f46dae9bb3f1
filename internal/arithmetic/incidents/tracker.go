package incidents

import (
	"slices"
	"strings"
	"unicode"
)

// Tracker stores the incidents of a text. The zero value is the tracker of an empty text. A copy is
// independent of the original.
type Tracker struct {
	kept   [Kept]Incident // incident n has index (n-1) % Kept; an unused element has Number 0
	number int64
	open   int
}

// Watches reports whether a line of probability p without changes can open or join an incident. If
// not, Take ignores the line and does not need its marks.
func (t *Tracker) Watches(p float64) bool { return p <= Strange || t.open > 0 }

// Take processes the next line. It passes every incident that the line opens, joins or closes to
// the function `each`. The incident is valid only during the call.
func (t *Tracker) Take(l *Line, each func(*Incident)) {
	for n := t.number - Kept + 1; n <= t.number; n++ {
		if i := t.at(n); i != nil && i.Open() && l.Number-i.Last > quiet {
			t.close(i, each)
		}
	}
	i := t.joined(l)
	switch {
	case i != nil:
		t.join(i, l, each)
	case len(l.Changes) > 0, l.P <= Strange && len(strings.TrimSpace(string(l.Text))) > 0:
		t.begin(l, each)
	}
}

// Incidents returns the kept incidents, newest first.
func (t *Tracker) Incidents() (all []Incident) {
	for n := t.number; n > t.number-Kept && n > 0; n-- {
		all = append(all, *t.at(n))
	}
	return all
}

func (t *Tracker) at(number int64) *Incident {
	if number < 1 || number > t.number || number <= t.number-Kept {
		return nil
	}
	return &t.kept[(number-1)%Kept]
}

// joined returns the newest open incident that the line joins, or nil if it joins none.
func (t *Tracker) joined(l *Line) *Incident {
	for n := t.number; n > t.number-Kept; n-- {
		i := t.at(n)
		if i == nil || !i.Open() {
			continue
		}
		near := l.P <= Strange && (l.Number-i.Last <= adjacent ||
			l.Number-i.Last <= around && i.shares(l))
		if i.alike(l) || near || i.changed(l) {
			return i
		}
	}
	return nil
}

// changed reports whether a change of the line was reported or began during the incident, or at
// most `around` lines later.
func (i *Incident) changed(l *Line) bool {
	return slices.ContainsFunc(l.Changes, func(c Change) bool {
		return i.Last >= l.Number-around || i.First <= c.First && c.First <= i.Last+around
	})
}

func (i *Incident) shares(l *Line) bool {
	return slices.ContainsFunc(l.Rare, func(m Mark) bool { return slices.Contains(i.Rare[:], m) })
}

func (t *Tracker) begin(l *Line, each func(*Incident)) {
	t.number++
	i := &t.kept[(t.number-1)%Kept]
	if i.Open() { // the new incident overwrites an open incident
		t.close(i, each)
	}
	*i = Incident{
		Number: t.number, First: l.Number, Last: l.Number, Offset: l.Offset, Lines: 1, Strange: 1,
		P: l.P, Why: l.Why(), Key: l.Key, Place: l.Place,
	}
	t.open++
	if l.P > Strange {
		i.Strange, i.P, i.Why = 0, 1, Why{}
		i.Key, i.Place = l.Changes[0].Key, l.Changes[0].Key
	}
	i.Samples[0], i.Changes = sample(l.Text), l.Changes[:min(len(l.Changes), changesMost)]
	copy(i.Rare[:], l.Rare)
	each(i)
}

func (t *Tracker) join(i *Incident, l *Line, each func(*Incident)) {
	i.Last = l.Number
	i.Lines++
	if l.P <= Strange {
		i.Strange++
	}
	if n := slices.Index(i.Samples[1:], ""); n >= 0 {
		i.Samples[1+n] = sample(l.Text)
	}
	if l.P <= Strange && l.P < i.P {
		i.P, i.Why, i.Key, i.Place = l.P, l.Why(), l.Key, l.Place
	}
	if n := min(len(l.Changes), changesMost-len(i.Changes)); n > 0 {
		i.Changes = append(slices.Clip(i.Changes), l.Changes[:n]...)
	}
	if i.Lines >= stays {
		i.Stays = true
		t.close(i, each)
		return
	}
	each(i)
}

func (t *Tracker) close(i *Incident, each func(*Incident)) {
	i.Closed = true
	t.open--
	each(i)
}

func sample(line []byte) string { return Plain(string(line[:min(len(line), SampleBytes)])) }

// Plain makes a text safe for terminals and JSON. It removes invalid UTF-8 and replaces control
// characters by spaces.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/api/client"
)

const (
	// silenceEvery is the interval between checks for silent sources.
	silenceEvery = time.Second
	// silenceLeast is the shortest silence that can be unusual. After it, watch asks the server how
	// long a silence of the session must be to be unusual.
	silenceLeast = 10 * time.Second
)

// silence describes a source without new lines.
type silence struct {
	since time.Time     // time of the source's last line
	after time.Duration // unusual duration of a silence; 0 if not yet known, negative if none
	told  bool
}

// heardLocked records that a source has a new line, so its silence begins again.
func (r *lineReport) heardLocked(source string) {
	if r.incidents.silences == nil {
		r.incidents.silences = map[string]*silence{}
	}
	r.incidents.silences[source] = &silence{since: time.Now()}
}

// forgetSilence forgets a source that has ended.
func (r *lineReport) forgetSilence(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.incidents != nil {
		delete(r.incidents.silences, source)
	}
}

// silences reports sources that have been silent for an unusually long time, until ctx ends. A
// session cannot report a silence, because it works only when it receives lines.
func (a *watchAll) silences(ctx context.Context) {
	every := time.NewTicker(silenceEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			for _, source := range a.report.silentSince(now.Add(-silenceLeast)) {
				if list, err := a.w.Client.ListIncidents(ctx, a.sessionOf(source)); err == nil {
					a.report.silentAfter(source, list)
				}
			}
			a.report.tellSilences(now)
		}
	}
}

// silentSince returns the sources that have had no line since time `at`. It omits sources for which
// the unusual duration of a silence is already known.
func (r *lineReport) silentSince(at time.Time) (sources []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for source, s := range r.incidents.silences {
		if s.after == 0 && s.since.Before(at) {
			sources = append(sources, source)
		}
	}
	return sources
}

// silentAfter records how long a silence of the source must last to be unusual.
func (r *lineReport) silentAfter(source string, list client.IncidentList) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.incidents.silences[source]
	if !ok { // the source has ended in the meantime
		return
	}
	if s.after = -1; list.SilentSeconds != nil {
		s.after = max(silenceLeast, time.Duration(*list.SilentSeconds*float64(time.Second)))
	}
}

// tellSilences prints the sources that have become unusually silent.
func (r *lineReport) tellSilences(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for source, s := range r.incidents.silences {
		if s.told || s.after <= 0 || now.Sub(s.since) < s.after {
			continue
		}
		s.told = true
		if r.silent != nil {
			r.silent(source, s.since, s.after)
		}
		if err := r.printSilenceLocked(source, now.Sub(s.since), s.after); err != nil {
			r.note(err.Error())
		}
	}
}

// silenceObject is the JSON form of a report about a silent source.
type silenceObject struct {
	Type    string  `json:"type"`
	Source  string  `json:"source"`
	Seconds float64 `json:"seconds"`         // time since the last line of the source
	After   float64 `json:"unusual_seconds"` // duration from which a silence is unusual
}

func (r *lineReport) printSilenceLocked(source string, d, unusual time.Duration) error {
	if r.asJSON {
		return printObject(r.out, silenceObject{"silence", source, d.Seconds(), unusual.Seconds()})
	}
	_, err := fmt.Fprintf(r.out, "%-8s  %s: no line for %s; unusual after %s\n", "silence", source,
		d.Round(time.Second), unusual.Round(time.Second))
	return err
}

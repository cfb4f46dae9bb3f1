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
	// silenceLeast is the shortest silence that can be unusual. After this time without lines,
	// watch asks the server which silences of the session are unusual.
	silenceLeast = 10 * time.Second
)

type silence struct {
	since time.Time
	// duration from which a silence is unusual; 0 if not yet known, negative if no silence is
	// unusual
	after time.Duration
	told  bool
}

// heard records that a source is not silent: it has text, although no line is scored yet.
func (r *lineReport) heard(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heardLocked(source)
}

func (r *lineReport) heardLocked(source string) {
	if r.incidents.silences == nil {
		r.incidents.silences = map[string]*silence{}
	}
	r.incidents.silences[source] = &silence{since: time.Now()}
}

// forgetSilence ends the reports about silences of a source, because the source has ended.
func (r *lineReport) forgetSilence(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.incidents != nil {
		delete(r.incidents.silences, source)
	}
}

// silences reports sources that have been silent for unusually long, until ctx is canceled. A
// session cannot report a silence, because sessions run only when they receive lines.
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

// silentSince returns the sources without a line since the given time. Sources are omitted if the
// unusual duration of their silences is already known.
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

type silenceObject struct {
	Type    string  `json:"type"`
	Source  string  `json:"source"`
	Seconds float64 `json:"seconds"`
	After   float64 `json:"unusual_seconds"`
}

func (r *lineReport) printSilenceLocked(source string, d, unusual time.Duration) error {
	if r.asJSON {
		return printObject(r.out, silenceObject{"silence", source, d.Seconds(), unusual.Seconds()})
	}
	_, err := fmt.Fprintf(r.out, "%-8s  %s: no line for %s; unusual after %s\n", "silence", source,
		d.Round(time.Second), unusual.Round(time.Second))
	return err
}

package session

import (
	"context"
	"fmt"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/sessionlog"
)

// load finds out which sessions the store has. Nothing is computed, and nothing but heads and last records is read. Sessions that were never
// completed, and those that have expired, are deleted.
func (mg *Manager) load(ctx context.Context) error {
	var halves []string
	for after := ""; ; {
		page, err := mg.options.Store.List(ctx, after, listPage)
		if err != nil {
			return fmt.Errorf("session: listing what is stored: %w", err)
		}
		if len(page) == 0 {
			break
		}
		for _, found := range page {
			s := stored(mg.model, found)
			if s.bad == nil && !s.Complete {
				halves = append(halves, s.ID)
				continue
			}
			if s.bad != nil {
				mg.options.Report(&UnusableError{ID: s.ID, Err: s.bad})
			}
			mg.sessions[s.ID] = s
			mg.owned[s.Owner]++
			mg.places++
		}
		after = page[len(page)-1].ID
	}
	mg.erase(halves)
	mg.sweep()
	return nil
}

// stored is a session as the store has it: cold, and not claimed. Without a model, whether it could go on under one is not looked at.
func stored(m *model.Model, found sessionlog.Session) *session {
	s := &session{head: head{ID: found.ID}, state: make(chan struct{}, 1)}
	if found.Err != nil {
		s.bad = found.Err
		return s
	}
	h, err := decodeHead(found.ID, found.Head)
	if err != nil {
		s.bad = err
		return s
	}
	s.head, s.lastUsed = h, h.Created
	s.seen = h.stored(found)
	if r := found.Last; r != nil {
		if at := time.UnixMilli(r.UnixMS).UTC(); at.After(s.lastUsed) {
			s.lastUsed = at
		}
	}
	s.bad = h.suits(m, found)
	return s
}

// suits says why a session cannot go on here.
func (h *head) suits(m *model.Model, found sessionlog.Session) error {
	switch {
	case m != nil && h.Model.Hash != m.Hash():
		return &ModelError{Have: h.Model.id(), Want: m.ID()}
	case found.Last == nil && found.End > 0:
		return fmt.Errorf("no record ends at offset %d, the end of its log: expected one with its totals", found.End)
	case found.Last != nil && found.Last.HasBaseline != h.Settings.Baseline:
		return fmt.Errorf("its last record has baseline bits: %t, expected %t, as its settings say", found.Last.HasBaseline, h.Settings.Baseline)
	}
	if m == nil {
		return nil
	}
	return h.Settings.Validate(m)
}

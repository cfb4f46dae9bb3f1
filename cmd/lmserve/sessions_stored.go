package main

import (
	"time"

	"github.com/lmserve/lmserve/internal/session"
	"github.com/lmserve/lmserve/internal/sessionlog"
)

// storedSession is a session as 'list' and 'show' print it.
type storedSession struct {
	ID           string            `json:"id"`
	Name         string            `json:"name,omitempty"`
	Problem      string            `json:"problem,omitempty"` // why the session cannot be used
	Model        string            `json:"model,omitempty"`
	Owner        string            `json:"owner,omitempty"`
	Created      time.Time         `json:"created,omitzero"`
	LastUsed     time.Time         `json:"last_used,omitzero"`
	Offset       int64             `json:"offset"`
	Bits         float64           `json:"bits"`
	BaselineBits *float64          `json:"baseline_bits,omitempty"`
	Method       string            `json:"method,omitempty"`
	Chunk        int               `json:"chunk,omitempty"`
	Seed         uint64            `json:"seed"`
	History      string            `json:"history,omitempty"`
	Start        int64             `json:"start"` // offset of the first byte of text that is kept
	Parent       *session.Parent   `json:"parent,omitempty"`
	Numerics     string            `json:"numerics,omitempty"`
	TTLSeconds   float64           `json:"ttl_seconds,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	DiskBytes    int64             `json:"disk_bytes"`          // that the session is charged for
	Snapshots    []storedSnapshot  `json:"snapshots,omitempty"` // printed by 'show' alone
}

type storedSnapshot struct {
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// charges tells what a store charges each of its sessions for.
func charges(store sessionlog.Store) map[string]int64 {
	all := map[string]int64{}
	if m, ok := store.(sessionlog.Metered); ok {
		m.Meter(func(id string, bytes int64) { all[id] = bytes })
	}
	return all
}

func describeStored(found sessionlog.Session) storedSession {
	i := session.Describe(found)
	s := storedSession{ID: i.ID, Name: i.Name, Model: i.Model, Owner: i.Owner, Created: i.Created, LastUsed: i.LastUsed, Offset: i.Offset, Bits: i.Bits,
		BaselineBits: i.BaselineBits, Seed: i.Seed, History: i.History, Start: found.Start,
		Parent: i.Parent, Numerics: i.Numerics, TTLSeconds: i.TTL.Seconds(), Labels: i.Labels}
	s.Method, _ = i.Settings["method"].(string) // it is "" if the head could not be read
	s.Chunk, _ = i.Settings["chunk"].(int)
	if i.Err != nil {
		s.Problem = i.Err.Error()
	}
	return s
}

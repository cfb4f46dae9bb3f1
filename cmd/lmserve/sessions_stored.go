package main

import (
	"context"
	"strconv"
	"time"

	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

type storedSession struct {
	ID           string    `json:"id"`
	Name         string    `json:"name,omitempty"`
	Problem      string    `json:"problem,omitempty"` // why the session cannot be used
	Model        string    `json:"model,omitempty"`
	Owner        string    `json:"owner,omitempty"`
	Created      time.Time `json:"created,omitzero"`
	LastUsed     time.Time `json:"last_used,omitzero"`
	Offset       int64     `json:"offset"`
	Bits         float64   `json:"bits"`
	BaselineBits *float64  `json:"baseline_bits,omitempty"`
	// Words is nil for a model of bytes and for a session without text.
	Words   *storedWords    `json:"words,omitempty"`
	Method  string          `json:"method,omitempty"`
	Chunk   int             `json:"chunk,omitempty"`
	Seed    uint64          `json:"seed"`
	History string          `json:"history,omitempty"`
	Start   int64           `json:"start"` // offset of the first stored byte of text
	Parent  *session.Parent `json:"parent,omitempty"`
	// the ID of the session whose text this shadow receives
	ShadowOf   string            `json:"shadow_of,omitempty"`
	Numerics   string            `json:"numerics,omitempty"`
	TTLSeconds float64           `json:"ttl_seconds,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	DiskBytes  int64             `json:"disk_bytes"` // disk space charged to this session
	// printed only by the command `sessions show`
	Snapshots []storedSnapshot `json:"snapshots,omitempty"`
}

// storedWords has the fields that are set only for models of words, with the field names of the
// API.
type storedWords struct {
	Tokens       int64    `json:"tokens"`
	Perplexity   float64  `json:"perplexity"`
	Unknown      int64    `json:"unknown"`
	UnknownBytes int64    `json:"unknown_bytes"`
	UnknownBits  float64  `json:"unknown_bits"`
	BitsPerByte  *float64 `json:"bits_per_byte,omitempty"`
	PendingBytes int64    `json:"pending_bytes"`
}

type storedSnapshot struct {
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

func storedNamed(
	ctx context.Context, store storage.Store, named string,
) (found storage.Session, err error) {
	id, err := session.Resolve(ctx, store, named)
	if err != nil {
		return found, err
	}
	return store.Get(ctx, id)
}

// charges returns the disk space charged to each session, in bytes.
func charges(store storage.Store) map[string]int64 {
	all := map[string]int64{}
	if m, ok := store.(storage.Metered); ok {
		m.Meter(func(id string, bytes int64) { all[id] = bytes })
	}
	return all
}

func describeStored(found storage.Session) storedSession {
	i := session.Describe(found)
	s := storedSession{ID: i.ID, Name: i.Name, Model: i.Model, Owner: i.Owner, Created: i.Created,
		LastUsed: i.LastUsed, Offset: i.Offset, Bits: i.Bits,
		BaselineBits: i.BaselineBits, Seed: i.Seed, History: i.History, Start: found.Start,
		Parent: i.Parent, Numerics: i.Numerics, TTLSeconds: i.TTL.Seconds(), Labels: i.Labels}
	if i.ShadowOf != nil {
		s.ShadowOf = i.ShadowOf.ID
	}
	s.Method, _ = i.Settings["method"].(string) // "" if the session's metadata is unreadable
	s.Chunk, _ = i.Settings["chunk"].(int)
	if found.Last != nil && found.Last.Words != nil {
		s.Words = describeWords(i)
	}
	if i.Err != nil {
		s.Problem = i.Err.Error()
	}
	return s
}

func describeWords(i session.Info) *storedWords {
	w := &storedWords{
		Tokens: i.Tokens, Unknown: i.Unknown, UnknownBytes: i.UnknownBytes,
		UnknownBits:  i.UnknownBits,
		PendingBytes: i.PendingBytes, Perplexity: i.Perplexity(),
	}
	if i.Bytes > i.UnknownBytes {
		w.BitsPerByte = new(i.BitsPerByte())
	}
	return w
}

// bitsPerByte formats a session's bits per byte. For a model of words, it excludes unknown words.
func (s *storedSession) bitsPerByte() string {
	rate := new(0.)
	switch {
	case s.Words != nil:
		rate = s.Words.BitsPerByte
	case s.Offset > 0:
		*rate = s.Bits / float64(s.Offset)
	default:
		rate = nil
	}
	if rate == nil {
		return "-"
	}
	return strconv.FormatFloat(*rate, 'f', 4, 64)
}

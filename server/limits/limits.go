// Package limits has the numbers that bound what the server takes and gives. They stand in one
// place, below everything that enforces them.
package limits

import (
	"time"

	"github.com/lmserve/lmserve/internal/session"
)

// What the contract states, as info.x-limits or in the schema of a field (a test holds the two
// equal). The middleware, the validation against the contract or a handler enforces each of them.
const (
	// Bodies and connections.
	JSONBodyBytesMax   = 8 << 20          // of a JSON body; these are read into memory
	ScoreBodyBytesMax  = 16 << 30         // of a streamed body, of which the server keeps nothing
	ImportBodyBytesMax = 4 << 30          // of an exported session
	HeaderBytesMax     = 64 << 10         // of a request's line and headers
	BodyIdleMax        = 5 * time.Minute  // without a byte of a body before it is given up
	AnswerIdleMax      = time.Minute      // without a byte of an answer taken before it is given up
	HeaderTimeMax      = 10 * time.Second // for a request's line and headers to arrive
	ConnIdleMax        = 2 * time.Minute  // for a kept connection without a request

	// Keys whose entry in the keys file does not say otherwise.
	KeySessionsDefault       = 1000    // live
	KeyRequestsDefault       = 64      // at work at the same time
	KeyBytesPerSecondDefault = 1 << 20 // of bodies and of sampled text

	// The queue in front of the workers, of all keys together.
	QueueRequestsMax = session.QueueDefault

	// Sessions: the limits of the session manager, and of what only requests have. The limits on
	// settings stand in stream.Table.
	SeedMax            = session.SeedMax // what every JSON reader keeps exactly
	OffsetMax          = 1<<53 - 1
	LabelsMax          = session.LabelsMax // on one session
	LabelKeyCharsMax   = session.LabelKeyCharsMax
	LabelValueCharsMax = session.LabelValueCharsMax
	TTLSecondsMax      = int64(session.TTLMax / time.Second)
	ListLimitMax       = session.ListMax // sessions on a page
	ListLimitDefault   = session.ListDefault
	SessionIDCharsMax  = 128

	// Completions, but for the limits on sampling, which stand in session.SamplingTable.
	CompletionTokensDefault = session.CompletionTokensDefault
	StopStringsMax          = session.StopStringsMax
	StopCharsMax            = session.StopCharsMax
)

// What the contract states in words, or leaves to the server.
const (
	RequestIDCharsMax = 128             // of a request id that a client may choose
	FoundCharsMax     = 80              // of a value quoted in a problem
	DetailCharsMax    = 500             // of an error told in a problem
	LingerMax         = time.Second     // for the rest of a body nobody wants, before its connection is closed
	RetryAfterDefault = 5 * time.Second // advice to clients that find the server full or draining
	PacedParts        = 8               // of a second's worth of text: what is read at a time
)

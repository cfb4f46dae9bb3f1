package server

import (
	"time"

	"github.com/lmserve/lmserve/internal/session"
)

// Limits of the server. Each appears in the contract, as info.x-limits or in the schema of its field (a test holds the two equal), and is
// enforced by the middleware, by validation against the contract, or by a handler.
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
	// settings stand in the table that both they and the contract are made of.
	SeedMax            = session.SeedMax // what every JSON reader keeps exactly
	OffsetMax          = 1<<53 - 1
	LabelsMax          = session.LabelsMax // on one session
	LabelKeyCharsMax   = session.LabelKeyCharsMax
	LabelValueCharsMax = session.LabelValueCharsMax
	TTLSecondsMax      = int64(session.TTLMax / time.Second)
	ListLimitMax       = session.ListMax // sessions on a page
	ListLimitDefault   = session.ListDefault
	SessionIDCharsMax  = 128

	// Completions.
	CompletionTokensMax     = session.CompletionTokensMax // sampled by one request
	CompletionTokensDefault = 128
	TemperatureMax          = session.TemperatureMax
	TopKMax                 = session.TopKMax
	StopStringsMax          = session.StopStringsMax
	StopCharsMax            = session.StopCharsMax
)

const (
	requestIDCharsMax = 128             // of a request id that a client may choose
	foundCharsMax     = 80              // of a value quoted in a problem
	detailCharsMax    = 500             // of an error told in a problem
	lingerMax         = time.Second     // for the rest of a body nobody wants, before its connection is closed
	retryAfterDefault = 5 * time.Second // advice to clients that find the server full or draining
	pacedParts        = 8               // of a second's worth of text: what is read at a time
)

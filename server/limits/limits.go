// Package limits has the numbers that bound what the server takes and gives. They stand in one
// place, below everything that enforces them.
package limits

import (
	"time"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// What the contract states, as info.x-limits or in the schema of a field (a test holds the two
// equal). The middleware, the validation against the contract or a handler enforces each of them.
const (
	// Bodies and connections.
	JSONBodyBytesMax   = 8 << 20         // of a JSON body, which is read into memory
	JSONDepthMax       = 16              // of a JSON body: objects and arrays within each other
	JSONMembersMax     = 64              // of one object or array of a JSON body
	JSONTokensMax      = 1024            // of a JSON body: plain values, names and brackets
	JSONNameBytesMax   = 1024            // of a name or number of a JSON body
	ScoreBodyBytesMax  = 16 << 30        // of a streamed body, of which the server keeps nothing
	ImportBodyBytesMax = 4 << 30         // of an exported session
	HeaderBytesMax     = 64 << 10        // of a request's line and headers
	BodyIdleMax        = 5 * time.Minute // without a byte of a body before the request ends
	// without a byte taken of an answer before the request ends
	AnswerIdleMax = time.Minute
	HeaderTimeMax = 10 * time.Second // for a request's line and headers to arrive
	ConnIdleMax   = 2 * time.Minute  // for a kept connection without a request

	// A backup that the server keeps for a client to go on with.
	BackupIdleMax = session.BackupIdleMax // while nobody reads it
	BackupLifeMax = session.BackupLifeMax // in all

	// Keys whose entry in the keys file does not say otherwise.
	KeySessionsDefault       = 1000     // live sessions
	KeyRequestsDefault       = 64       // requests at work at the same time
	KeyBytesPerSecondDefault = 1 << 20  // bytes of bodies and of sampled text
	KeyDiskBytesDefault      = 32 << 30 // bytes of the disk that the sessions are charged for

	// The queue in front of the workers, of all keys together.
	QueueRequestsMax = session.QueueDefault

	// Sessions: the limits of the session manager, and those that only requests have. The limits on
	// settings stand in stream.Table.
	SeedMax            = session.SeedMax // 2^53 - 1, which every reader of JSON keeps exactly
	OffsetMax          = 1<<53 - 1
	UnlearntBytesMax   = session.UnlearntBytesMax // of a text that is scored and not learnt
	ThresholdDefault   = 1. / 1000                // largest probability of a line that is flagged
	AnswerLinesMax     = 16 << 20                 // bytes of memory for the lines of an answer
	ScoreTextsMax      = session.TextsMax         // of one request
	LabelsMax          = session.LabelsMax        // of one session
	LabelKeyCharsMax   = session.LabelKeyCharsMax
	LabelValueCharsMax = session.LabelValueCharsMax
	TTLSecondsMax      = int64(session.TTLMax / time.Second)
	ListLimitMax       = session.ListMax // sessions on a page of a listing
	ListLimitDefault   = session.ListDefault
	SessionIDCharsMax  = 128

	// What is read of a session's past, and of what others feed to it.
	TextLengthDefault   = 64 << 10
	TextLengthMax       = session.TextBytesMax
	ScoresLengthMax     = session.PastBytesMax
	ScoresPointsMax     = session.PastPointsMax
	ScoresPointsDefault = 1000
	// without an event, until a client is told that there is none
	WatchIdleMax    = session.WatchIdle
	WatcherBytesMax = session.WatcherBytes // of events that wait for one client

	SessionNameCharsMax = session.NameCharsMax
	WaitSecondsMax      = int64(session.WaitMax / time.Second) // for others that feed the session
	SessionWaitingMax   = session.WaitingMax                   // requests that wait for one session
	// of a text for its turn, unless it says otherwise: shippers wait for 10 s
	FeedWait          = 8 * time.Second
	SessionShadowsMax = session.ShadowsMax // shadows of one session

	// What log shippers send.
	LogBodyBytesMax        = 16 << 20 // of a body, decompressed
	FieldBytesMax          = 1024     // of the parameter field
	FieldPartsMax          = 32       // names in it, each of which costs a look at each record
	IdempotencyKeyCharsMax = 256

	// Completions, but for the limits on sampling, which stand in session.SamplingTable.
	CompletionTokensDefault = session.CompletionTokensDefault
	StopStringsMax          = session.StopStringsMax
	StopCharsMax            = session.StopCharsMax

	// OpenAI's interface.
	OpenAIPromptsMax       = session.BatchPromptsMax
	OpenAITextsMax         = session.BatchTextsMax      // of all prompts
	OpenAIPromptTokensMax  = session.BatchPromptTokens  // of all prompts
	OpenAISampledTokensMax = session.BatchSampledTokens // of all texts
	OpenAILogprobsMax      = session.CandidatesMax
	OpenAITemperatureMax   = 2                  // OpenAI's own, as is the next
	OpenAITokensDefault    = 16                 // tokens of a text where a request says nothing
	OpenAIUserCharsMax     = LabelValueCharsMax // of whom a request is for
	OpenAIModelCharsMax    = 256                // of a model's id
	OpenAIAnswerBytesMax   = 64 << 20           // of memory for an answer that is not streamed

	// FillTokensMax is how many tokens are sampled at most for an editor, and where it says
	// nothing.
	FillTokensMax    = 256
	TokenizeCharsMax = 1 << 20
	TokenIDMax       = session.TokenIDMax
)

// What the contract states in words, or leaves to the server.
const (
	RequestIDCharsMax = 128             // of a request id that a client chooses
	FoundCharsMax     = 80              // of a value that a problem quotes
	DetailCharsMax    = 500             // of an error that a problem tells
	LingerMax         = time.Second     // for the rest of a body that nobody wants to arrive
	RetryAfterDefault = 5 * time.Second // advice to clients that find the server full or draining
	RetryAfterBusy    = time.Second     // the same where others feed the session
	PacedParts        = 8               // a paced body is read in such parts of a second's worth

	// A body is read ahead while its request waits, to notice a client that leaves.
	AttendAfter   = 250 * time.Millisecond // of waiting
	AheadBytesMax = 16 << 20               // as fast as they come
	AheadPause    = 31 * time.Millisecond  // between reads of at most 32 KiB after these: 1 MiB/s

	// The memory of what requests have in memory whole: pages of sessions, JSON bodies, and the
	// log-probabilities of completions that are not streamed. Each kind has memory of its own, and
	// so have bodies that need little, so that nobody waits for another kind.
	ListMemoryMax    = 32 << 20 // of all pages of sessions
	ListSessionBytes = 4 << 10  // of a session on a page
	MemoryMax        = ListMemoryMax + RequestMemoryMax + SmallRequestMemoryMax +
		WatchersBytesMax + ZstdMemoryMax
	WatchersBytesMax      = session.WatchersBytes
	RequestMemoryMax      = 128 << 20        // of all bodies that need much
	SmallRequestMemoryMax = 32 << 20         // of all bodies that need little
	SmallRequestBytes     = 512 << 10        // of a body that needs little
	RequestMemoryWaitMax  = 10 * time.Second // for memory to be free
	// of a JSON body that is in memory while the rest comes in
	JSONHeadBytes      = 16 << 10
	JSONReadFactor     = 8   // memory of a JSON body that is being read, by its length
	JSONKeptFactor     = 3   // the same when it was read
	JSONManyTokenBytes = 384 // the same of each value beyond JSONTokensMax
	// memory of a body of a log shipper while it is read, by its length
	LogReadFactor  = 8
	LogPlainFactor = 6             // the same of a body behind Snappy, by the length of what comes out
	LogKeptFactor  = 2             // the same of the lines that were made of it, by their length
	ZstdBytes      = 10 << 20      // memory of a decompressor of Zstandard
	ZstdMemoryMax  = 4 * ZstdBytes // of all of these
	ZstdWindowMax  = 8 << 20       // window that a body may need, as `zstd -19` makes it
	LineBytes      = 1 << 10       // memory of a line of a text until it is sent
	LineTextFactor = 8             // the same of the line's text, by its length
	PastScoreBytes = 1 << 10       // memory of a part of a session's past scores until it is sent
	LogProbBytes   = 64            // memory of a log-probability until it is sent
)

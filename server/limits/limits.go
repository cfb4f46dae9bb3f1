// Package limits has the numerical limits of requests and answers, in one place for all packages
// that enforce them.
package limits

import (
	"time"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// These limits are also in the OpenAPI contract, under info.x-limits or in the schema of a field. A
// test compares the values.
const (
	// Limits on request bodies and connections.
	JSONBodyBytesMax   = 8 << 20
	JSONDepthMax       = 16
	JSONMembersMax     = 64       // members of one object or array in a JSON body
	JSONTokensMax      = 1024     // values, member names and brackets in one JSON body
	JSONNameBytesMax   = 1024     // bytes of a name or number in a JSON body
	ScoreBodyBytesMax  = 16 << 30 // bytes of a streamed body, which is not held in memory
	ImportBodyBytesMax = 4 << 30
	HeaderBytesMax     = 64 << 10        // size of the request line and headers
	BodyIdleMax        = 5 * time.Minute // longest wait for the next byte of a request body
	// AnswerIdleMax is the longest wait for a client to take the next byte of an answer.
	AnswerIdleMax = time.Minute
	HeaderTimeMax = 10 * time.Second // time for the request line and headers to arrive
	ConnIdleMax   = 2 * time.Minute  // time after which an idle connection is closed

	// The server keeps a backup for a while, so that a client can resume the download.
	BackupIdleMax = session.BackupIdleMax // time since the last reader left
	BackupLifeMax = session.BackupLifeMax // time since the backup was made

	// Defaults for keys whose entry in the keys file omits the limit.
	KeySessionsDefault       = 1000
	KeyRequestsDefault       = 64      // concurrent requests
	KeyBytesPerSecondDefault = 1 << 20 // bytes of request bodies and sampled text
	KeyDiskBytesDefault      = 32 << 30

	// QueueRequestsMax limits the requests that wait for a session, for memory or for a worker,
	// over all keys.
	QueueRequestsMax = session.QueueDefault

	// Limits on sessions and requests. stream.Table has the limits on settings.
	// 2^53 - 1; float64, which many JSON parsers use, represents every integer up to here exactly
	SeedMax          = session.SeedMax
	OffsetMax        = 1<<53 - 1
	UnlearntBytesMax = session.UnlearntBytesMax // bytes of a text scored without learning
	// a line is flagged if its rating, a probability, is at most this value
	ThresholdDefault   = 1. / 1000
	AnswerLinesMax     = 16 << 20 // bytes of memory for the lines of an answer
	ScoreTextsMax      = session.TextsMax
	LabelsMax          = session.LabelsMax
	LabelKeyCharsMax   = session.LabelKeyCharsMax
	LabelValueCharsMax = session.LabelValueCharsMax
	TTLSecondsMax      = int64(session.TTLMax / time.Second)
	ListLimitMax       = session.ListMax // sessions per page
	ListLimitDefault   = session.ListDefault
	SessionIDCharsMax  = 128

	// Limits on reading the past text and scores of a session, and on watching its events.
	TextLengthDefault   = 64 << 10
	TextLengthMax       = session.TextBytesMax
	ScoresLengthMax     = session.PastBytesMax
	ScoresPointsMax     = session.PastPointsMax
	ScoresPointsDefault = 1000
	// WatchIdleMax is the idle time after which the server sends a keep-alive event.
	WatchIdleMax    = session.WatchIdle
	WatcherBytesMax = session.WatcherBytes // bytes of events queued for one client

	SessionNameCharsMax = session.NameCharsMax
	// longest wait for earlier requests of the session
	WaitSecondsMax    = int64(session.WaitMax / time.Second)
	SessionWaitingMax = session.WaitingMax
	// FeedWait is how long a text waits by default for earlier requests of its session. It is
	// shorter than the 10 s timeout of log shippers.
	FeedWait          = 8 * time.Second
	SessionShadowsMax = session.ShadowsMax

	// Limits on requests of log shippers.
	LogBodyBytesMax = 16 << 20 // bytes of a body after decompression
	FieldBytesMax   = 1024     // bytes of the query parameter `field`
	// names in the query parameter `field`; each name is looked up in each record
	FieldPartsMax          = 32
	IdempotencyKeyCharsMax = 256

	// Limits on completions. session.SamplingTable has the limits on sampling parameters.
	CompletionTokensDefault = session.CompletionTokensDefault
	StopStringsMax          = session.StopStringsMax
	StopCharsMax            = session.StopCharsMax

	// Limits on completions in OpenAI's form.
	OpenAIPromptsMax = session.BatchPromptsMax
	OpenAITextsMax   = session.BatchTextsMax // texts per request, over all prompts
	// prompt tokens per request, over all prompts
	OpenAIPromptTokensMax = session.BatchPromptTokens
	// sampled tokens per request, over all texts
	OpenAISampledTokensMax = session.BatchSampledTokens
	OpenAILogprobsMax      = session.CandidatesMax
	OpenAITemperatureMax   = 2                  // as in OpenAI's interface
	OpenAITokensDefault    = 16                 // default tokens per text, as in OpenAI's interface
	OpenAIUserCharsMax     = LabelValueCharsMax // characters of the field `user`
	OpenAIModelCharsMax    = 256
	OpenAIAnswerBytesMax   = 64 << 20 // bytes of memory for an unstreamed answer

	// FillTokensMax is the largest number of tokens that a fill-in-the-middle request samples. The
	// default is also FillTokensMax, or half of FillTokensMax in Tabby's form.
	FillTokensMax    = 256
	TokenizeCharsMax = 1 << 20
	TokenIDMax       = session.TokenIDMax
)

// Limits that the contract states only in words or not at all.
const (
	RequestIDCharsMax = 128
	FoundCharsMax     = 80              // characters of an invalid value that an error quotes
	DetailCharsMax    = 500             // characters of an error message
	LingerMax         = time.Second     // time to read the rest of a body that no handler reads
	RetryAfterDefault = 5 * time.Second // Retry-After if the server is full or shutting down
	RetryAfterBusy    = time.Second     // Retry-After if the session is busy
	// UsersRememberedMax is the number of users whose sessions the server finds without a search.
	UsersRememberedMax = 10_000
	// PacedParts limits each read of a rate-limited body to 1/PacedParts of the bytes allowed per
	// second.
	PacedParts = 8

	// While a request waits, the server reads the body ahead to notice if the client leaves.
	AttendAfter   = 250 * time.Millisecond // wait before the server reads ahead
	AheadBytesMax = 16 << 20               // bytes read ahead before the server slows down
	// pause after each slow read of 32 KiB, for at most 1 MiB/s
	AheadPause = 31 * time.Millisecond

	// Memory for data that a request holds whole, such as a page of sessions or a JSON body. Pages
	// of sessions, decompressors, small reservations and large reservations have separate pools. A
	// request waits only for memory of the same pool.
	ListMemoryMax    = 32 << 20 // memory for all pages of sessions together
	ListSessionBytes = 4 << 10  // memory of one session on a page
	MemoryMax        = ListMemoryMax + RequestMemoryMax + SmallRequestMemoryMax +
		WatchersBytesMax + ZstdMemoryMax
	WatchersBytesMax      = session.WatchersBytes
	RequestMemoryMax      = 128 << 20 // memory for all reservations above SmallRequestBytes
	SmallRequestMemoryMax = 32 << 20  // memory for reservations of at most SmallRequestBytes
	SmallRequestBytes     = 512 << 10 // largest reservation from the pool for small bodies
	RequestMemoryWaitMax  = 10 * time.Second
	// JSONHeadBytes is the size of the part of an arriving JSON body that is in memory. The rest
	// goes to a temporary file.
	JSONHeadBytes      = 16 << 10
	JSONReadFactor     = 8   // bytes of memory per byte of a JSON body during parsing
	JSONKeptFactor     = 3   // bytes of memory per byte of a JSON body after parsing
	JSONManyTokenBytes = 384 // bytes of memory per JSON value beyond JSONTokensMax
	// LogReadFactor is the memory in bytes per byte of a log shipper's body during parsing.
	LogReadFactor = 8
	// LogPlainFactor is the memory in bytes per decompressed byte of a Snappy body.
	LogPlainFactor = 6
	LogKeptFactor  = 2        // bytes of memory per byte of the lines in a log shipper's body
	ZstdBytes      = 10 << 20 // memory of one Zstandard decompressor
	ZstdMemoryMax  = 4 * ZstdBytes
	ZstdWindowMax  = 8 << 20 // largest window of a Zstandard body; `zstd -19` needs 8 MiB
	LineBytes      = 1 << 10 // memory per line until the line is sent
	LineTextFactor = 8       // memory per byte of a line's text until the line is sent
	PastScoreBytes = 1 << 10 // memory per point of past scores until the answer is sent
	LogProbBytes   = 64      // memory per log-probability until the answer is sent
)

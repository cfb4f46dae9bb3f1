// Package limits has the numbers that bound requests and answers, in one place for all packages
// that enforce them.
package limits

import (
	"time"

	"github.com/lmserve/lmserve/internal/serving/session"
)

// Limits that the contract states, as info.x-limits or in a field's schema; a test compares the
// two. Middleware, validation against the contract, or a handler enforces each limit.
const (
	// Bodies and connections.
	JSONBodyBytesMax   = 8 << 20         // bytes of a JSON body, which is kept in memory
	JSONDepthMax       = 16              // nested objects and arrays in a JSON body
	JSONMembersMax     = 64              // members of one object or array in a JSON body
	JSONTokensMax      = 1024            // plain values, names and brackets in a JSON body
	JSONNameBytesMax   = 1024            // bytes of a name or number in a JSON body
	ScoreBodyBytesMax  = 16 << 30        // bytes of a streamed body, which is not kept
	ImportBodyBytesMax = 4 << 30         // bytes of an exported session
	HeaderBytesMax     = 64 << 10        // bytes of a request's line and headers
	BodyIdleMax        = 5 * time.Minute // wait for the next byte of a body
	// wait for a client to take the next byte of an answer
	AnswerIdleMax = time.Minute
	HeaderTimeMax = 10 * time.Second // time for a request's line and headers to arrive
	ConnIdleMax   = 2 * time.Minute  // lifetime of an idle connection

	// A backup that the server keeps so that a client can resume.
	BackupIdleMax = session.BackupIdleMax // time without a reader
	BackupLifeMax = session.BackupLifeMax // time in total

	// Defaults for keys whose entry in the keys file omits the limit.
	KeySessionsDefault       = 1000     // live sessions
	KeyRequestsDefault       = 64       // concurrent requests
	KeyBytesPerSecondDefault = 1 << 20  // bytes of bodies and of sampled text
	KeyDiskBytesDefault      = 32 << 30 // disk bytes charged to the key's sessions

	// The queue for workers, over all keys.
	QueueRequestsMax = session.QueueDefault

	// Limits of the session manager, and of requests. stream.Table has the limits on settings.
	SeedMax            = session.SeedMax // 2^53 - 1: every JSON reader keeps it exactly
	OffsetMax          = 1<<53 - 1
	UnlearntBytesMax   = session.UnlearntBytesMax // bytes of a text scored without learning
	ThresholdDefault   = 1. / 1000                // largest probability of a flagged line
	AnswerLinesMax     = 16 << 20                 // bytes of memory for the lines of an answer
	ScoreTextsMax      = session.TextsMax         // texts of one request
	LabelsMax          = session.LabelsMax        // labels of one session
	LabelKeyCharsMax   = session.LabelKeyCharsMax
	LabelValueCharsMax = session.LabelValueCharsMax
	TTLSecondsMax      = int64(session.TTLMax / time.Second)
	ListLimitMax       = session.ListMax // sessions on a page of a listing
	ListLimitDefault   = session.ListDefault
	SessionIDCharsMax  = 128

	// Reads of a session's past, and watches.
	TextLengthDefault   = 64 << 10
	TextLengthMax       = session.TextBytesMax
	ScoresLengthMax     = session.PastBytesMax
	ScoresPointsMax     = session.PastPointsMax
	ScoresPointsDefault = 1000
	// idle time after which the server sends a keep-alive
	WatchIdleMax    = session.WatchIdle
	WatcherBytesMax = session.WatcherBytes // bytes of events queued for one client

	SessionNameCharsMax = session.NameCharsMax
	WaitSecondsMax      = int64(session.WaitMax / time.Second) // time to wait for earlier requests
	SessionWaitingMax   = session.WaitingMax                   // requests waiting for one session
	// default wait of a text for its turn; shippers wait 10 s
	FeedWait          = 8 * time.Second
	SessionShadowsMax = session.ShadowsMax // shadows of one session

	// Bodies of log shippers.
	LogBodyBytesMax        = 16 << 20 // bytes of a body after decompression
	FieldBytesMax          = 1024     // bytes of the parameter field
	FieldPartsMax          = 32       // names in that parameter; each is looked up in each record
	IdempotencyKeyCharsMax = 256

	// Completions. session.SamplingTable has the limits on sampling.
	CompletionTokensDefault = session.CompletionTokensDefault
	StopStringsMax          = session.StopStringsMax
	StopCharsMax            = session.StopCharsMax

	// OpenAI's interface.
	OpenAIPromptsMax       = session.BatchPromptsMax
	OpenAITextsMax         = session.BatchTextsMax      // texts of all prompts together
	OpenAIPromptTokensMax  = session.BatchPromptTokens  // tokens of all prompts together
	OpenAISampledTokensMax = session.BatchSampledTokens // sampled tokens of all texts together
	OpenAILogprobsMax      = session.CandidatesMax
	OpenAITemperatureMax   = 2                  // as in OpenAI's interface
	OpenAITokensDefault    = 16                 // default tokens per text, as in OpenAI's interface
	OpenAIUserCharsMax     = LabelValueCharsMax // characters of the field user
	OpenAIModelCharsMax    = 256                // characters of a model's id
	OpenAIAnswerBytesMax   = 64 << 20           // bytes of memory for an unstreamed answer

	// FillTokensMax is the largest and the default number of tokens sampled for an editor.
	FillTokensMax    = 256
	TokenizeCharsMax = 1 << 20
	TokenIDMax       = session.TokenIDMax
)

// Limits that the contract states only in words or not at all.
const (
	RequestIDCharsMax = 128             // characters of a request id that a client chose
	FoundCharsMax     = 80              // characters of a value that a problem quotes
	DetailCharsMax    = 500             // characters of an error text in a problem
	LingerMax         = time.Second     // time to drain the rest of an unwanted body
	RetryAfterDefault = 5 * time.Second // Retry-After of a full or draining server
	RetryAfterBusy    = time.Second     // Retry-After of a busy session
	// Each read of a rate-limited body gets at most 1/PacedParts of a second's bytes.
	PacedParts = 8

	// Reading ahead while a request waits, to notice a client that leaves.
	AttendAfter   = 250 * time.Millisecond // wait before reading ahead begins
	AheadBytesMax = 16 << 20               // bytes read ahead at full speed
	AheadPause    = 31 * time.Millisecond  // pause between later reads of 32 KiB: at most 1 MiB/s

	// Memory for complete data: pages of sessions, JSON bodies, and log-probabilities of unstreamed
	// completions. Each kind has its own share, so that it does not wait for another kind. Small
	// bodies also have their own share.
	ListMemoryMax    = 32 << 20 // all pages together
	ListSessionBytes = 4 << 10  // memory of one session on a page
	MemoryMax        = ListMemoryMax + RequestMemoryMax + SmallRequestMemoryMax +
		WatchersBytesMax + ZstdMemoryMax
	WatchersBytesMax      = session.WatchersBytes
	RequestMemoryMax      = 128 << 20        // all large bodies together
	SmallRequestMemoryMax = 32 << 20         // all small bodies together
	SmallRequestBytes     = 512 << 10        // largest small body
	RequestMemoryWaitMax  = 10 * time.Second // wait for free memory
	// part of a JSON body in memory while the rest arrives
	JSONHeadBytes      = 16 << 10
	JSONReadFactor     = 8   // memory per byte of a JSON body being read
	JSONKeptFactor     = 3   // memory per byte of a JSON body once read
	JSONManyTokenBytes = 384 // memory of each value beyond JSONTokensMax
	// memory per byte of a log shipper's body being read
	LogReadFactor = 8
	// memory per decompressed byte of a body in Snappy
	LogPlainFactor = 6
	LogKeptFactor  = 2             // memory per byte of the lines made from that body
	ZstdBytes      = 10 << 20      // memory of a decompressor of Zstandard
	ZstdMemoryMax  = 4 * ZstdBytes // memory of all decompressors of Zstandard
	ZstdWindowMax  = 8 << 20       // window that a body may need, as `zstd -19` makes it
	LineBytes      = 1 << 10       // memory of a line of a text until it is sent
	LineTextFactor = 8             // memory per byte of the text of that line
	PastScoreBytes = 1 << 10       // memory of a part of a session's past scores until it is sent
	LogProbBytes   = 64            // memory of a log-probability until it is sent
)

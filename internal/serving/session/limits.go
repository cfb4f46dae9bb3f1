package session

import (
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
)

// These are the default values of Options.
const (
	// SessionsDefault is the maximum, because disk space or memory already limits the number of
	// sessions.
	SessionsDefault = SessionsMax
	// MemoryShareDefault is the default divisor: states may use 1/4 of the machine's memory.
	MemoryShareDefault = 4
	// in bytes, if the size of the machine's memory is unknown
	MemoryBytesDefault      = 2 << 30
	SessionTextBytesDefault = 1 << 30 // limit on the text of one session
	// QueueDefault limits the requests that wait for a session, for memory or for a worker.
	QueueDefault     = 256
	ReplayMaxDefault = 10 * time.Second
)

// FileBytes is the memory needed to pack or parse a snapshot, an export or an import. It does not
// include the memory for the state.
const FileBytes = 32 << 20

// These constants limit the values of Options.
const (
	SessionsMax = 1 << 20
	ThreadsMax  = 1 << 8
	QueueMax    = 1 << 16
	// ForkSnapshotsMax is half of the store's limit on snapshots of a session. The other half is
	// for snapshots that recovery needs, and for snapshots that will be dropped.
	ForkSnapshotsMax = storage.SnapshotsMax / 2
)

// These constants limit requests. Limits on settings are in stream.Table, and limits on sampling
// are in SamplingTable.
const (
	ChunkTokensMax     = stream.MaxChunk
	LabelsMax          = 16 // labels per session
	LabelKeyCharsMax   = 64
	LabelValueCharsMax = 256
	TTLMax             = 365 * 24 * time.Hour
	ListDefault        = 100
	ListMax            = 1000
	WaitMax            = 10 * time.Minute // wait while other requests feed the session
	WaitingMax         = 64               // waiting requests per session
	PromptBytesMax     = 8 << 20
	StopStringsMax     = 32
	StopCharsMax       = 256
	BatchPromptsMax    = 128     // prompts per batch
	BatchTextsMax      = 128     // texts per batch, for all prompts together
	BatchPromptTokens  = 1 << 16 // tokens of all prompts of a batch together
	BatchSampledTokens = 1 << 16 // sampled tokens of all texts of a batch together
	CandidatesMax      = 20      // likeliest tokens reported at each position
	TokenIDMax         = tokenizer.MaxVocab - 1
	TextBytesMax       = 1 << 20  // bytes of text returned per call
	PastBytesMax       = 16 << 20 // bytes of text whose scores are returned per call
	PastPointsMax      = 4096     // scores returned per call
)

// WatchIdle is the time without events after which Watch reports that nothing happened.
const WatchIdle = 15 * time.Second

const (
	readBufferBytes = 16 << 10
	recordBytes     = 128 // memory of a record, without its text
	listPage        = 1000
	emptyBytes      = 1 << 10 // approximate disk space of an empty session
	deletesAtOnce   = 256     // expired sessions that are deleted concurrently
	// lookedAtOnce is the number of sessions that a listing by label checks during one locking of
	// the registry. It is small, because requests wait for this lock.
	lookedAtOnce = 256
	lookedMax    = 1 << 16
	// frozenMax is the number of copies of a session's stream that a completion needs: one at the
	// end of the prompt, and one at the end of the text.
	frozenMax  = 2
	pieceQueue = 64 // pieces of a completion buffered for a slow client

	// replayWorth is the minimum recovery time for which the server writes a snapshot of a session
	// that it drops from memory. Writing a snapshot takes about as long.
	replayWorth = 50 * time.Millisecond

	// scoreRecovery and forkRecovery are the default limits on a request's wait for the recovery of
	// a session's state. After scoreRecovery, a score request fails, and the recovery continues for
	// the client's next try. After forkRecovery, a fork is made without its state. scoreRecovery is
	// longer than a recovery after a restart (ReplayMaxDefault), and shorter than usual client
	// timeouts.
	scoreRecovery = 30 * time.Second
	forkRecovery  = time.Second

	// turnMax is the time for which a completion samples before it releases the worker. This is
	// about the time for a chunk of fed text with the embedded model. Sampling a chunk takes
	// several times as long, because sampled tokens are computed one by one.
	turnMax = 20 * time.Millisecond

	// yieldWait is how long a worker waits for a client to accept an event, or for the disk to
	// write a record. After this time the worker is released, and must later compute the chunk's
	// activations again. A healthy connection accepts an event at once.
	yieldWait = 50 * time.Millisecond
)

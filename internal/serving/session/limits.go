package session

import (
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
)

// Limits of a Manager whose Options do not say otherwise.
const (
	// disk bounds them, or memory where there is no other store
	SessionsDefault = SessionsMax
	// Options.MaxMemoryBytes is this part of the machine's memory: 1/4
	MemoryShareDefault      = 4
	MemoryBytesDefault      = 2 << 30 // the same where that is not known
	SessionTextBytesDefault = 1 << 30 // text of one session
	// requests that wait for a session's turn, for memory or for a worker
	QueueDefault     = 256
	ReplayMaxDefault = 10 * time.Second
)

// FileBytes is the memory of a snapshot, an export or an import while it is packed or parsed,
// beside the state: compressor and decompressor, and the header.
const FileBytes = 32 << 20

// Limits on Options.
const (
	SessionsMax = 1 << 20
	ThreadsMax  = 1 << 8 // also of every command that computes
	QueueMax    = 1 << 16
	// ForkSnapshotsMax leaves room for those that are not for forks, and for those that are to go.
	ForkSnapshotsMax = storage.SnapshotsMax / 2
)

// Limits on requests. Those on settings are in stream.Table, those on sampling in SamplingTable.
const (
	ChunkTokensMax     = stream.MaxChunk
	LabelsMax          = 16 // of one session
	LabelKeyCharsMax   = 64
	LabelValueCharsMax = 256
	TTLMax             = 365 * 24 * time.Hour
	ListDefault        = 100 // sessions on a page
	ListMax            = 1000
	WaitMax            = 10 * time.Minute // for a session that others feed
	WaitingMax         = 64               // requests that wait for their turn to feed one session
	PromptBytesMax     = 8 << 20
	StopStringsMax     = 32
	StopCharsMax       = 256
	BatchPromptsMax    = 128     // of one batch
	BatchTextsMax      = 128     // of all prompts of a batch
	BatchPromptTokens  = 1 << 16 // of all prompts of a batch
	BatchSampledTokens = 1 << 16 // of all texts of a batch
	CandidatesMax      = 20      // likeliest tokens reported beside a token
	TokenIDMax         = tokenizer.MaxVocab - 1
	TextBytesMax       = 1 << 20  // of a session's text that are read at once
	PastBytesMax       = 16 << 20 // of text whose past scores are read at once
	PastPointsMax      = 4096     // parts of these
)

// WatchIdle is how long Watch tells nothing before it tells that there was nothing.
const WatchIdle = 15 * time.Second

const (
	readBufferBytes = 16 << 10 // of a body, read ahead of its scoring: many chunks
	recordBytes     = 128      // that a record in memory takes beside its text
	listPage        = 1000     // sessions read from the store at once
	emptyBytes      = 1 << 10  // that a session without text takes of the disk, about
	deletesAtOnce   = 256      // that share what a deletion costs the store
	// sessions of a listing by label under one lock, which a chunk may wait for
	lookedAtOnce = 256
	lookedMax    = 1 << 16 // sessions that one page of a listing by label looks at
	// frozen streams of one generation: where a prompt ends, and where a text is
	frozenMax  = 2
	pieceQueue = 64 // pieces of a completion that wait for a slow client, beside those of one turn

	// replayWorth is how much computing a snapshot has to save to be written when a session is
	// dropped from memory: it costs about as much itself.
	replayWorth = 50 * time.Millisecond

	// scoreRecovery and forkRecovery are how long a request waits for a session's state to be
	// computed again, unless a score waits longer. The request is then repeated, and continues.
	// Longer than what a restart leaves to compute (ReplayMaxDefault), and shorter than clients
	// wait. A fork is made without its state.
	scoreRecovery = 30 * time.Second
	forkRecovery  = time.Second

	// turnMax is how long a completion samples before others have their turn: about as long as a
	// chunk of the embedded model takes a processor. A chunk of sampled tokens, which are computed
	// one by one, takes several times as long.
	turnMax = 20 * time.Millisecond

	// yieldWait is how long a client may take to accept an event, or a disk to take a record,
	// before the worker behind it goes to others. A healthy connection takes an event into its
	// buffer at once; a worker that is taken away has to compute the chunk's activations again.
	yieldWait = 50 * time.Millisecond
)

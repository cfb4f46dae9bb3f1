package session

import (
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/tokenizer"
)

// Defaults of Options.
const (
	// The number of sessions is limited by the disk, or by the memory if the store is in memory.
	SessionsDefault = SessionsMax
	// Options.MaxMemoryBytes is 1/4 of the machine's memory
	MemoryShareDefault      = 4
	MemoryBytesDefault      = 2 << 30 // used if the machine's memory is not known
	SessionTextBytesDefault = 1 << 30 // text of one session
	// requests that wait for a session's turn, for memory or for a worker
	QueueDefault     = 256
	ReplayMaxDefault = 10 * time.Second
)

// FileBytes is the memory to pack or parse a snapshot, an export or an import, besides the state:
// compressor, decompressor and header.
const FileBytes = 32 << 20

// Limits on Options.
const (
	SessionsMax = 1 << 20
	ThreadsMax  = 1 << 8 // limit also for every command that computes
	QueueMax    = 1 << 16
	// ForkSnapshotsMax leaves room for other snapshots, and for those about to be dropped.
	ForkSnapshotsMax = storage.SnapshotsMax / 2
)

// Limits on requests. stream.Table has those on settings, SamplingTable those on sampling.
const (
	ChunkTokensMax     = stream.MaxChunk
	LabelsMax          = 16 // labels of one session
	LabelKeyCharsMax   = 64
	LabelValueCharsMax = 256
	TTLMax             = 365 * 24 * time.Hour
	ListDefault        = 100 // sessions on a page
	ListMax            = 1000
	WaitMax            = 10 * time.Minute // wait for a session that other requests feed
	WaitingMax         = 64               // requests that wait to feed one session
	PromptBytesMax     = 8 << 20
	StopStringsMax     = 32
	StopCharsMax       = 256
	BatchPromptsMax    = 128     // prompts of one batch
	BatchTextsMax      = 128     // texts after all prompts of a batch
	BatchPromptTokens  = 1 << 16 // tokens of all prompts of a batch
	BatchSampledTokens = 1 << 16 // sampled tokens of all texts of a batch
	CandidatesMax      = 20      // likeliest tokens reported beside a token
	TokenIDMax         = tokenizer.MaxVocab - 1
	TextBytesMax       = 1 << 20  // bytes of a session's text that one call returns
	PastBytesMax       = 16 << 20 // bytes of text whose scores one call returns
	PastPointsMax      = 4096     // parts into which one call divides these scores
)

// WatchIdle is how long Watch is silent before it reports that nothing happened.
const WatchIdle = 15 * time.Second

const (
	readBufferBytes = 16 << 10 // bytes of a body that are read ahead of its scoring: many chunks
	recordBytes     = 128      // memory of a record besides its text
	listPage        = 1000     // sessions read from the store at once
	emptyBytes      = 1 << 10  // approximate disk space of a session without text, in bytes
	deletesAtOnce   = 256      // deletions that share one write of the store
	// sessions of a listing by label that are checked under one lock, for which a chunk may have to
	// wait
	lookedAtOnce = 256
	lookedMax    = 1 << 16 // sessions that one page of a listing by label checks
	// frozen streams of one generation: at the end of a prompt, and of a text
	frozenMax  = 2
	pieceQueue = 64 // pieces of a completion that wait for a slow client, besides those of one turn

	// replayWorth is how much computing time a snapshot must save to be written when a session is
	// dropped from memory: writing it costs about as much.
	replayWorth = 50 * time.Millisecond

	// scoreRecovery and forkRecovery are how long a request waits for the recovery of a session's
	// state, unless a score asks for more. Then the client repeats the request, and the recovery
	// continues. They are longer than the recovery after a restart (ReplayMaxDefault), and shorter
	// than the timeouts of clients. A fork is then made without its state.
	scoreRecovery = 30 * time.Second
	forkRecovery  = time.Second

	// turnMax is how long a completion samples before others get the worker. A chunk of the
	// embedded model takes about as long. Sampled tokens are computed one by one, so a chunk of
	// them takes several times as long.
	turnMax = 20 * time.Millisecond

	// yieldWait is how long a client may take for an event, or a disk for a record, before the
	// worker is released. A healthy connection buffers an event at once. A released worker must
	// compute the chunk's activations again.
	yieldWait = 50 * time.Millisecond
)

// Package session keeps the live sessions of one or several models: their text, the order of their
// chunks and their states. A session is a deterministic function of the weights, its settings, its
// seed and its bytes.
//
// This file has the plain types that callers of the Manager use; errors.go has the errors.
package session

import (
	"encoding/json"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/incidents"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// Methods of adaptation: values of the setting "method".
const (
	MethodSparseMeta = stream.SparseMeta
	MethodDynamicSGD = stream.DynamicSGD
	MethodDynamicRMS = stream.DynamicRMS
	MethodCache      = stream.Cache
	MethodCounts     = stream.Counts
	MethodStatic     = stream.Static
)

// Values of CompleteRequest.Commit: what a completion feeds to its session.
const (
	CommitNone   = "none"   // the session stays unchanged
	CommitPrompt = "prompt" // the prompt is fed to the session, as by Score
	CommitAll    = "all"    // the prompt and the sampled text are fed to the session
)

// Values of CompleteRequest.From: the model that a completion is sampled from.
const (
	FromAdapted = "adapted" // the model as the session has adapted it
	FromStatic  = "static"  // the model without adaptation, after the same text
)

// Values of ScoreOptions.Learn: what a session learns from a scored text.
const (
	LearnTrue  = "true"  // the text is added to the session, which learns from all of it
	LearnFalse = "false" // the session stays unchanged
	// The text is added to the session, which learns from the lines that are not flagged.
	LearnUnflagged = "unflagged"
)

// UnlearntBytesMax is the largest text that is scored with LearnFalse, in bytes.
const UnlearntBytesMax = 8 << 20

// Values of Completion.FinishReason: why a completion ended.
const (
	FinishStop   = "stop"   // a stop string occurred
	FinishLength = "length" // MaxTokens tokens were sampled
)

// Values of CreateRequest.History: how much of its text a session keeps.
const (
	HistoryFull = "full" // all of the session's text
	// only the text that recovery needs, so no forks or reads at older offsets
	HistoryTail = "tail"
)

// SeedMax is the largest seed of a session or a completion. Seeds are below 2^53 so that every JSON
// reader keeps them exactly.
const SeedMax = 1<<53 - 1

// Settings map the setting names in stream.Table to values; they say how a session adapts. A
// missing setting means the model's default for the method. An Info has all settings. Settings of
// other methods are checked against their ranges and have no effect.
type Settings = setting.Values

// Caller identifies who makes a request. The zero value is the anonymous owner of a server without
// keys. A session that the caller may not see does not exist for the caller.
type Caller struct {
	// the id of the caller's key, which owns the sessions that the caller makes
	Key   string
	Admin bool // sees the sessions of all owners
	// limit on the key's live sessions; 0 means that only the Manager's limit applies
	MaxSessions int
	// MaxDisk limits the disk space of the key's sessions, in bytes. 0 means no limit.
	MaxDisk int64
}

// sees reports whether the caller may see the sessions of an owner.
func (c Caller) sees(owner string) bool { return c.Admin || c.Key == owner }

// CreateRequest describes a session to be created. The zero value asks for the model's defaults, a
// random seed and no expiry.
type CreateRequest struct {
	// ModelInfo.ID or ModelInfo.Name of the session's model; "" for the default model
	Model    string
	Settings Settings
	Seed     *uint64           // the seed of the update masks, 0..SeedMax; nil means a random seed
	Labels   map[string]string // kept for the caller, never interpreted
	// TTL is how long the session may be unused before it is deleted; 0 means forever.
	TTL     time.Duration
	History string // HistoryFull or HistoryTail; "" is HistoryFull
	// ShadowOf is the id or name of the session that the new one follows; "" if it follows none.
	ShadowOf string
}

// ForkRequest describes a fork: a new session with the model, settings, seed and text of an
// existing session.
type ForkRequest struct {
	AtOffset *int64 // the end of the shared text; nil means the end of the session's text
	Name     string // the name of the fork, as CheckName accepts; "" means no name
	Labels   map[string]string
	TTL      time.Duration
	History  string // as in a CreateRequest; "" means the History of the forked session
}

// Parent is the origin of a fork.
type Parent struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
}

// Tally has the totals of scored tokens. In a model of words, a word is scored when white space
// follows it. Until then its bytes are accepted but in no Tally.
type Tally struct {
	tokenizer.Tally
	// BaselineBits is the sum of -log2 p of the tokens under the static model. It is nil unless the
	// setting "baseline" is on.
	BaselineBits *float64
}

// Info describes a session at one moment, between two chunks.
type Info struct {
	Tally

	ID      string
	Name    string
	Model   string    // ModelInfo.ID of the session's model
	Words   bool      // the model's tokens are words; false also if the model is not served
	Created time.Time // in UTC
	// LastUsed is the end of the last request that fed or sampled the session, in UTC. Without such
	// a request it is Created. After a restart it is the time of the last text.
	LastUsed time.Time
	Offset   int64  // the number of accepted bytes: the position of the next byte
	Step     uint64 // the number of updates of the fast weights so far
	// Pending is the number of tokens scored since the last update. It equals the chunk size only
	// while the update after a full chunk is computed.
	Pending int
	// PendingBytes is the number of bytes at the end of the text that belong to an unfinished token
	// and have no bits yet. Offset is the sum of Tally.Bytes and PendingBytes.
	PendingBytes int64
	// the memory of the session in bytes; 0 while the session is only in the store
	MemoryBytes int64
	// the disk space charged to the session; 0 if the store is not a data folder
	DiskBytes int64
	// Numerics is the instruction set that the session's arithmetic runs under, e.g. "amd64-avx2";
	// "" if it was not recorded.
	Numerics string
	Settings Settings
	Seed     uint64
	Labels   map[string]string
	TTL      time.Duration // 0 if the session never expires
	History  string
	Parent   *Parent // nil unless the session is a fork
	// the session that this session follows; nil unless this session is a shadow
	ShadowOf *Shadow
	Shadows  []Shadow
	Recovery *Recovery // the progress of a recovery under way; nil if there is none
	// Err says why the session cannot be used: it is damaged, or its model is not served. Other
	// fields may then be missing. The session can still be deleted.
	Err error
	// Owner is the id of the key that made the session. It is "" for the anonymous owner, and for
	// callers who are not admins.
	Owner string
}

// ScoreOptions are the options of a Score call. The zero value scores any text at the session's
// current offset.
type ScoreOptions struct {
	// Offset is the Info.Offset that the caller expects. If the session is at another offset, Score
	// fails with *OffsetError and nothing changes.
	Offset   *int64
	LogProbs bool
	Top      int // the number of likeliest tokens to report at each token; only with LogProbs
	// Learn is LearnTrue, LearnFalse or LearnUnflagged; "" is LearnTrue. LearnUnflagged needs
	// Lines. With LearnFalse, offsets and totals in the Chunks are computed as if the text had been
	// added to the session.
	Learn string
	// Threshold is the largest rating p at which a line is flagged. With LearnUnflagged, Threshold
	// must be above 0 and at most 1. No line is flagged until the session has seen enough lines.
	Threshold float64
	// Lines asks for reports of lines. If the session has no lines yet, its first line begins with
	// this text. From then on the session keeps statistics of its lines.
	Lines bool
	// TroubleWords is a list of words, such as "error", that contribute to the rating of a line. It
	// is set with the first text that is scored with Lines. Later, "" keeps the session's list, and
	// a different list is refused.
	TroubleWords string
	// Incidents limits the reported lines to four kinds: the first line, the last line, lines that
	// open, close or notably change an incident, and flagged lines that join an incident. The next
	// reported line also lists the incidents that unreported lines joined.
	Incidents bool
	// Records, with Lines, asks for reports of records instead of single lines. From then on the
	// session keeps statistics of its records. RecordStart is the pattern with which a record
	// begins, from this text on: "" means the default pattern, and nil the session's current
	// pattern.
	Records     bool
	RecordStart *string
	Text        bool
	TokenBits   bool // report the cost of each byte of a line
	// Updated, if not nil, is called after each update of the fast weights. The norms in an Update
	// are measured only if a caller or a watcher asks for updates.
	Updated func(Update) error
	// Wait is how long the call waits for its turn while other requests feed the session, up to
	// WaitMax. 0 means that the call does not wait.
	Wait time.Duration
	// Attend, if not nil, is called before the call waits for a turn or a worker. The returned
	// function end is called after the wait. The server does not read the request's body during the
	// wait, so it does not notice if the client leaves; Attend can watch the connection. Attend is
	// not called after the first accepted text, or for waits for the body.
	Attend func() (end func())
}

func (o ScoreOptions) attend() (end func()) {
	if o.Attend == nil {
		return func() {}
	}
	return o.Attend()
}

// Incident is a group of related strange lines of a session.
type Incident = incidents.Incident

// IncidentBytes is the approximate maximum memory of a reported incident, in bytes.
const IncidentBytes = 4 << 10

// IncidentReport is an incident, with the user's verdict on similar incidents. The verdict is "" if
// there is none.
type IncidentReport struct {
	Incident
	Verdict string
}

// Why contains the reasons why a line is strange.
type Why = incidents.Why

// Line reports a line of a session's text, or the unfinished line so far. The report does not
// depend on how the text was split into requests.
type Line struct {
	Number       int64 // the number of the line in the session, from 1
	Offset       int64
	Bytes        int64 // the length in bytes, including the newline
	Chars        int64
	Bits         float64
	BaselineBits *float64 // nil unless the setting "baseline" is on

	lines.Strangeness

	Incidents []IncidentReport
	Why       Why // zero unless Text is asked for
	// Text has no newline and at most lines.TextMax bytes. It is nil unless asked for.
	Text      []byte
	TokenBits []float32 // bits of each byte of Text; nil unless asked for
	Cut       bool
	// the session does not learn from this line, because it is flagged or too long
	Unlearnt bool
	Lines    int64 // the number of lines of the record; 0 if this Line is a single line
	first    bool
	news     bool
	joined   []IncidentReport // Incidents, and those of the unreported lines before this line
	Ended    bool
}

// Chunk reports tokens that were scored together: all or a part of one chunk of the session's text.
// The scores do not depend on the update that follows the chunk.
type Chunk struct {
	Tally // the totals of the tokens in this report; the first token may begin in earlier text
	Total Tally

	Step   uint64 // the index of the chunk in the session, from 0
	Offset int64
	// PendingBytes is the number of bytes accepted after these tokens; see Info.PendingBytes.
	PendingBytes int64
	// Elapsed is the time from the text's arrival to this report, including waits for workers that
	// other sessions use.
	Elapsed time.Duration

	Complete bool
	Updates  uint64
	// the number of fast-weight entries that the last update wrote; 0 if there was no update
	Written int64
	FastRMS float64
	// Diverged says that the fast weights diverged and were reset after this text; see
	// stream.Divergence.
	Diverged bool
	// NetworkBits are the bits under the adapted network without the companion model. It is nil if
	// there is no companion, or if the bits are not finite.
	NetworkBits *float64
	// LogProbs are the natural logarithms of the tokens' probabilities, [Tokens]; nil unless asked
	// for. BaselineLogProbs are the logarithms under the static model; nil unless asked for with
	// the setting "baseline" on.
	LogProbs, BaselineLogProbs []float64
	// Top and BaselineTop are the likeliest candidates at each token, [Tokens]; nil unless asked
	// for.
	Top, BaselineTop [][]Candidate
	// Words are the tokens that LogProbs refers to. It is nil if the model's tokens are bytes.
	Words *ChunkWords
	// Lines are the lines that end in the reported text; nil unless asked for.
	Lines []Line
	// Records are the records of lines that the reported text completes; nil unless asked for. A
	// record is complete only when the first line of the next record has ended.
	Records []Line
	// ByLine says that the session learns line by line, and may skip some of the Lines.
	ByLine bool
	// Text is the accepted text, beginning at offset TextOffset of the session. For a model of
	// words it begins after the pending bytes of a token. Only Watch sets Text.
	Text       []byte
	TextOffset int64
}

// ChunkWords are the tokens of a Chunk whose model has words as tokens.
type ChunkWords struct {
	// sizes of consecutive tokens, in bytes; the first token begins at Chunk.Offset
	Sizes []int64
	IDs   []int32
	// the id of the token before the first token, which affects the first token's spelling
	After int32
}

// Update reports an update of the fast weights after a full chunk.
type Update struct {
	Offset  int64
	Step    uint64
	Updates uint64
	Written int64
	FastRMS float64
	// Branches are the norms of the fast weights, one for each branch.
	Branches []stream.BranchNorm
	Elapsed  time.Duration
}

// Summary is the result of a Score call.
type Summary struct {
	Tally
	Total Tally
	// NetworkBits is the sum of NetworkBits over the emitted Chunks.
	NetworkBits *float64

	Offset int64
	// PendingBytes is the number of bytes at the end of the text that have no bits yet; see
	// Info.PendingBytes.
	PendingBytes int64
	Chunks       int
	Divergences  int
	Duplicate    bool // the session already had the text of this delivery
	Updates      uint64
	// Rest is the unfinished line or record. It is nil if there is none, or if lines were not asked
	// for.
	Rest *Line
	// Last is set in two cases. If only Incidents were asked for, Last is the last line that ended
	// in the text, unless that line was reported. If Rest is an unfinished line of a session with
	// records, Last is the record before that line.
	Last    *Line
	Elapsed time.Duration
}

// CompleteRequest asks for text sampled after the session's text and the prompt. CommitPrompt and
// CommitAll first feed the prompt, so that the model learns from it. CommitAll then feeds the
// complete sampled text. A call that fails may have fed the prompt or a part of it.
type CompleteRequest struct {
	Prompt      []byte
	MaxTokens   int
	Temperature *float64 // 0 always takes the likeliest token; nil means 1
	// TopP, in (0, 1], limits sampling to the likeliest tokens that together have this probability.
	// nil means 1: all tokens.
	TopP *float64
	TopK int // samples among the TopK likeliest tokens; 0 means all
	// [0, 1]: samples only tokens at least MinP times as likely as the likeliest token
	MinP float64
	// the strength of the penalty on loops; 0 means none, nil means txl.DryDefault
	Dry    *float64
	Seed   *uint64  // the seed of the sampling, 0..SeedMax; nil means a random seed
	Stop   []string // the text ends before the first occurrence of any of these strings
	Commit string   // CommitNone, CommitPrompt or CommitAll; "" is CommitNone
	// Wait is as in ScoreOptions. A call that commits nothing does not wait for a turn.
	Wait time.Duration
	// LogProbs asks for the log-probability of every sampled token under the model's full
	// distribution.
	LogProbs bool
	// the number of likeliest tokens to report at each sampled token; only with LogProbs
	Top int
	// From is FromAdapted or FromStatic; "" is FromAdapted. FromStatic needs the setting
	// "baseline", or a method without fast weights.
	From string
}

// Piece is a part of a growing completion. It has whole UTF-8 characters if the model writes valid
// UTF-8.
type Piece struct {
	Text     []byte
	LogProbs []float64     // natural logarithms, one for each token of Text; nil unless asked for
	Top      [][]Candidate // the likeliest tokens at each token of Text; nil unless asked for

	// Words are the tokens of LogProbs whose last byte is in Text. Their sizes, in bytes, cover all
	// pieces without gaps. A token may begin in the previous piece, and a piece may have words but
	// no text. Words is empty for a model of bytes, where each byte of Text is a token.
	Words tokenizer.Tokens

	// The remaining fields are set only for a batch.
	Index int
	// FinishReason says why the text ended. Tokens is the number of sampled tokens, including the
	// tokens of a stop string. Both are set only in the last piece of a text, whose Text may be
	// empty.
	FinishReason string
	Tokens       int
	// Offset is the session's offset after the commit of a batch. It is nil except in the last
	// piece.
	Offset *int64
}

// Candidate is a token that may come next.
type Candidate struct {
	ID int32
	// the natural logarithm of the token's probability under the model's full distribution
	LogProb float64
}

// BatchRequest asks for texts that continue one or several prompts. Each prompt follows the
// session's text and is independent of the other prompts. Without Commit the session learns
// nothing.
type BatchRequest struct {
	// Model is as in a CreateRequest. It is not used if the batch continues a session.
	Model       string
	Prompts     [][]byte
	N           int // the number of texts after each prompt, >= 1
	MaxTokens   int
	Temperature *float64 // Temperature, TopP, TopK, MinP and Dry are as in a CompleteRequest
	TopP        *float64
	TopK        int
	MinP        float64
	Dry         *float64
	// Seed is the seed of the first text after each prompt. Each following text uses the next seed.
	Seed     *uint64
	Stop     []string
	Suffix   []byte // the text after the gap that each text fills; nil means no gap
	Echo     bool   // each text begins with its prompt, whose tokens are scored
	LogProbs bool
	Top      int // the number of likeliest tokens to report at each token; only with LogProbs

	// Commit is as in a CompleteRequest. It needs a session and a single prompt. CommitAll also
	// needs N to be 1.
	Commit string
	Offset *int64
	Wait   time.Duration
}

// Completion is the result of a Complete call.
type Completion struct {
	Text         []byte
	FinishReason string
	PromptTokens int
	// the number of sampled tokens, including the tokens of the stop string
	CompletionTokens int
	Seed             uint64
	Offset           int64
}

// ModelInfo describes a model that sessions of a Manager share.
type ModelInfo struct {
	ID   string // the name and the beginning of the content hash: "NAME-HASH"
	Hash string
	Name string
	// when the Manager began to serve the model, in UTC; weights have no date
	Created    time.Time
	Parameters int64 // the number of slow weights, without the meta-learners
	Config     json.RawMessage
	Tokenizer  string // tokenizer.KindBytes or tokenizer.KindWords
	Vocab      int    // the number of tokens; ids are 0 to Vocab-1
	Start      int32  // the id of the token before the first token of a text
	TokenBytes int    // the maximum length of a spelled token in bytes, including a word's space
	// the number of banks of fast weights; the setting "gammas" has a decay for each bank
	Banks int
	// the settings of a session created without settings, with no setting missing
	Defaults Settings
	Card     json.RawMessage // the description by the model's makers: a JSON object, or nil

	WeightsBytes int64
	SessionBytes int64
	Loaded       bool

	text tokenizer.Tokenizer // nil means the tokenizer of bytes
}

// ShadowsMax is the maximum number of shadows of a session.
const ShadowsMax = 4

// Shadow describes the other session of a shadowing pair. In the Info of a session with a shadow,
// Shadow describes the shadow. In the Info of a shadow, Shadow describes the session that the
// shadow follows.
type Shadow struct {
	ID     string
	Name   string
	Model  string
	Words  bool
	Offset int64
	Behind int64 // the number of bytes that the shadow has not been fed yet
	// Err says why the shadow is not fed. It is nil if the shadow is being fed, or has all of the
	// text.
	Err error
	// Compared has the totals of both sessions at the last offset at which both totals are known.
	// It is nil if there is no such offset yet.
	Compared *Comparison
}

// Comparison has the totals of a session and its shadow at the same offset.
type Comparison struct {
	Offset           int64
	Followed, Shadow Tally
}

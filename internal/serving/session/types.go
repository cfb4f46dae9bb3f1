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

// What a completion feeds to its session: values of CompleteRequest.Commit.
const (
	CommitNone   = "none"   // nothing: the session is unchanged
	CommitPrompt = "prompt" // the prompt is fed to the session, as by Score
	CommitAll    = "all"    // the prompt and the sampled text
)

// The model that a completion is sampled from: values of CompleteRequest.From.
const (
	FromAdapted = "adapted" // the model as the session has adapted it
	FromStatic  = "static"  // the model without adaptation, after the same text
)

// What a session learns from a scored text: values of ScoreOptions.Learn.
const (
	LearnTrue  = "true"  // all of the text, which is added to the session
	LearnFalse = "false" // nothing: the session is unchanged
	// The text is added to the session, which learns from the lines that are not flagged.
	LearnUnflagged = "unflagged"
)

// UnlearntBytesMax is the largest text that is scored with LearnFalse, in bytes.
const UnlearntBytesMax = 8 << 20

// Why a completion ended: values of Completion.FinishReason.
const (
	FinishStop   = "stop"   // a stop string occurred
	FinishLength = "length" // MaxTokens tokens were sampled
)

// How much of its text a session keeps: values of CreateRequest.History.
const (
	HistoryFull = "full" // all of the session's text
	HistoryTail = "tail" // only what recovery needs: no forks or reads at older offsets
)

// SeedMax is the largest seed of a session or a completion. Seeds are below 2^53 so that every JSON
// reader keeps them exactly.
const SeedMax = 1<<53 - 1

// Settings map the names in stream.Table to values; they say how a session adapts. A missing
// setting means the model's default for the method; in an Info none is missing. Settings of other
// methods are checked against their ranges and have no effect.
type Settings = setting.Values

// Caller is who makes a request. The zero value is the anonymous owner of a server without keys.
// For a caller that may not see a session, the session does not exist.
type Caller struct {
	Key         string // id of the caller's key, which owns what the caller makes
	Admin       bool   // sees the sessions of all owners
	MaxSessions int    // limit on the key's live sessions; 0: only the Manager's limit applies
	// limit on the disk space of the key's sessions, in bytes; 0: no limit except the disk's size
	MaxDisk int64
}

// sees reports whether the sessions of an owner exist for the caller.
func (c Caller) sees(owner string) bool { return c.Admin || c.Key == owner }

// CreateRequest describes a session to be made. The zero value asks for the model's defaults, a
// random seed and no expiry.
type CreateRequest struct {
	Model    string // ModelInfo.ID or Name of the session's model; "" for the default
	Settings Settings
	Seed     *uint64           // seed of the masks, 0..SeedMax; nil: a random seed
	Labels   map[string]string // kept for the caller, never interpreted
	// TTL is how long the session may be unused before it is deleted; 0 means forever.
	TTL     time.Duration
	History string // HistoryFull or HistoryTail; "" is HistoryFull
	// ShadowOf is the id or name of the session that the new one follows; "" if it follows none.
	ShadowOf string
}

// ForkRequest describes a fork: a session with the model, settings, seed and text of another.
type ForkRequest struct {
	AtOffset *int64            // the end of the shared text; nil means the end of the text
	Name     string            // name of the fork, see CheckName; "" if it has none
	Labels   map[string]string // as in a CreateRequest; not copied from the other session
	TTL      time.Duration
	History  string // as in a CreateRequest; "" for the History of the forked session
}

// Parent is the origin of a fork.
type Parent struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
}

// Tally has the totals of scored tokens. A word is scored when white space follows it; until then
// its bytes are accepted but in no Tally.
type Tally struct {
	tokenizer.Tally
	// BaselineBits is the same sum as Bits under the static model; nil unless the setting
	// "baseline" asks for it.
	BaselineBits *float64
}

// Info describes a session at one moment, between two chunks.
type Info struct {
	Tally // totals of the session's text so far

	ID      string
	Name    string    // the owner's name for the session, or ""
	Model   string    // ModelInfo.ID of the model it runs on
	Words   bool      // the model's tokens are words; false if the model is not served
	Created time.Time // UTC
	// LastUsed is the end of the last request that fed or sampled the session, or Created if there
	// was none. After a restart it is the time of the last text. UTC.
	LastUsed time.Time
	Offset   int64  // offset of the next byte in the stream: the number of accepted bytes
	Step     uint64 // updates of the fast weights made so far
	// Pending is the number of tokens scored since the last update. It equals the size of a chunk
	// only while the update after a full chunk is being computed.
	Pending int
	// PendingBytes is the number of bytes at the end of the text that belong to an unfinished token
	// and have no bits yet. Offset is the sum of the Tally's Bytes and PendingBytes.
	PendingBytes int64
	MemoryBytes  int64 // memory of the session; 0 while it is only on disk
	DiskBytes    int64 // disk space charged to the session; 0 if the store is not a folder
	// Numerics is the instruction set that the session's arithmetic runs under, e.g. "amd64-avx2";
	// "" if it was not recorded.
	Numerics string
	Settings Settings // settings in force: none is missing
	Seed     uint64   // seed in force
	Labels   map[string]string
	TTL      time.Duration // 0 if the session never expires
	History  string        // HistoryFull or HistoryTail
	Parent   *Parent       // nil unless the session is a fork
	ShadowOf *Shadow       // the session that this one follows; nil unless it is a shadow
	Shadows  []Shadow      // sessions that follow this one
	Recovery *Recovery     // progress of the session's recovery, if one is under way; else nil
	// Err is why the session cannot be used: it is damaged, or its model is not served. Then other
	// fields may be missing. It can be deleted.
	Err error
	// Owner is the id of the key that made the session. It is "" for the anonymous owner, and for
	// callers who are not admins.
	Owner string
}

// ScoreOptions are the options of one Score call. The zero value scores any text at the session's
// current offset.
type ScoreOptions struct {
	// Offset is the Info.Offset that the caller expects. If the session has another, Score fails
	// with *OffsetError and nothing changes.
	Offset   *int64
	LogProbs bool // report every token's log-probability
	Top      int  // number of likeliest tokens to report at each token; only with LogProbs
	// Learn is LearnTrue, LearnFalse or LearnUnflagged; "" is LearnTrue. LearnUnflagged needs
	// Lines. With LearnFalse the Chunks have offsets and totals as if the text had been added to
	// the session.
	Learn string
	// Threshold is the largest probability of a flagged line, which LearnUnflagged does not learn
	// from. While few lines have been seen, none is flagged.
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
	// reported line also has the incidents that unreported lines joined.
	Incidents bool
	// Records, with Lines, asks for reports of records instead of reports of single lines. From
	// then on the session keeps statistics of its records. RecordStart is the pattern with which a
	// record begins, from this text on: "" is the default pattern, and nil the session's pattern.
	Records     bool
	RecordStart *string
	Text        bool // report the text of lines
	TokenBits   bool // report the cost of each byte of a line
	// Updated, if not nil, is called after each update of the fast weights. The norms in an Update
	// are measured only for callers that ask for updates.
	Updated func(Update) error
	// Wait is how long the call waits for its turn while others feed the session, up to WaitMax. 0
	// means that it does not wait.
	Wait time.Duration
	// Attend, if not nil, is called before each wait, for example for a turn or for a worker. Waits
	// for the request's body do not count. The returned end is called after the wait. The
	// server does not read the body during the wait, so it would not notice that the client has
	// left; the caller can watch for that. After the first accepted text, Attend is not called.
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

// IncidentBytes is approximately the greatest memory of a reported incident, in bytes.
const IncidentBytes = 4 << 10

// IncidentReport is an incident, and the verdict on similar incidents. The verdict is "" if there
// is none.
type IncidentReport struct {
	Incident
	Verdict string
}

// Why contains the reasons why a line is strange.
type Why = incidents.Why

// Line reports a line of a session's text, or the unfinished line so far. A line does not depend on
// how its text was split into requests.
type Line struct {
	Number       int64 // number of the line in the session, from 1
	Offset       int64 // offset of the line's first byte in the stream
	Bytes        int64 // length with the newline
	Chars        int64 // as in a Tally
	Bits         float64
	BaselineBits *float64 // nil unless the setting "baseline" asks for it

	lines.Strangeness // compared with the session's earlier lines

	Incidents []IncidentReport // what happened to incidents at the line
	Why       Why              // zero unless the text is asked for
	// without the newline, at most lines.TextMax bytes; nil unless asked for
	Text      []byte
	TokenBits []float32 // bits of each byte of Text; nil unless asked for
	Cut       bool      // the line has more text than lines.TextMax bytes
	Unlearnt  bool      // the session does not learn from the line, which is flagged or too long
	Lines     int64     // number of lines of the record; 0 if this is a line
	first     bool      // the first line that ends in the text of a call
	news      bool      // the line notably changes an incident, or is flagged and joins one
	Ended     bool      // the line has a newline; false: it is unfinished
}

// Chunk reports tokens that were scored together: all or a part of one chunk of the stream. The
// scores do not depend on the update that follows the chunk.
type Chunk struct {
	Tally       // totals of the tokens in this report; the first token may begin in earlier text
	Total Tally // totals of the session, including this report

	Step   uint64 // index of the chunk in the stream; the first is 0
	Offset int64  // offset of the first byte of these tokens in the stream
	// PendingBytes is the number of bytes accepted after these tokens; see Info.
	PendingBytes int64
	// Elapsed is the time from the text's arrival to this report, including the wait for other
	// sessions.
	Elapsed time.Duration

	Complete bool    // the chunk is full; an update follows
	Updates  uint64  // updates of the fast weights made before this chunk was scored
	Written  int64   // entries that the last update wrote; 0 if none
	FastRMS  float64 // root mean square of the fast weights under which the chunk was scored
	// Diverged says that the fast weights diverged, and were reset after this text; see
	// stream.Divergence.
	Diverged bool
	// NetworkBits are the bits of the adapted network without the companion; nil without a
	// companion, and if they are not finite.
	NetworkBits *float64
	// LogProbs are the natural logarithms of the tokens' probabilities, [Tokens]; nil unless asked
	// for. BaselineLogProbs are those under the static model; nil also unless the setting
	// "baseline" asks for them.
	LogProbs, BaselineLogProbs []float64
	// Top and BaselineTop are the likeliest tokens at each token, [Tokens]; nil unless asked for.
	Top, BaselineTop [][]Candidate
	// Words are the tokens of LogProbs; nil where a token is a byte.
	Words *ChunkWords
	// Lines are the lines that end in the reported text; nil unless asked for.
	Lines []Line
	// Records are the records that the reported text completes; nil unless asked for. A record is
	// complete only when the first line of the next record has ended.
	Records []Line
	// ByLine says that the session learns line by line, and might skip some of these lines.
	ByLine bool
	// Text is the accepted text, from TextOffset in the stream. For a model of words it begins
	// after the pending bytes of a token. Only Watch reports it.
	Text       []byte
	TextOffset int64
}

// ChunkWords are the tokens of a Chunk of a model of words.
type ChunkWords struct {
	Sizes []int64 // sizes in bytes of consecutive tokens; the first token begins at Chunk.Offset
	IDs   []int32
	After int32 // the token before the first token, which affects the first token's spelling
}

// Update reports an update of the fast weights after a full chunk.
type Update struct {
	Offset  int64   // offset of the first byte after the chunk in the stream
	Step    uint64  // index of the chunk in the stream
	Updates uint64  // number of updates so far, including this update
	Written int64   // entries of the fast weights that the update wrote
	FastRMS float64 // root mean square of the fast weights after the update
	// Branches are the norms of the fast weights, by branch.
	Branches []stream.BranchNorm
	Elapsed  time.Duration // computing time: backward, update and measuring
}

// Summary is the result of one Score call as a whole.
type Summary struct {
	Tally       // totals of the tokens that this call completed
	Total Tally // totals of the session after the call
	// NetworkBits is the sum of the Chunks' NetworkBits.
	NetworkBits *float64

	Offset int64 // offset of the session after the call
	// PendingBytes is the number of bytes at the end of the text that have no bits yet; see Info.
	PendingBytes int64
	Chunks       int    // number of emitted Chunks
	Divergences  int    // number of emitted Chunks with Diverged set
	Duplicate    bool   // the session already had all of the delivery
	Updates      uint64 // total number of updates of the fast weights after the call
	// the unfinished line or record; nil if there is none, or lines were not asked for
	Rest *Line
	// Last is set in two cases. If only Incidents were asked for, it is the last line that ended in
	// the text, unless that line was reported. If Rest is the unfinished line, it is the record
	// before Rest.
	Last    *Line
	Elapsed time.Duration
}

// CompleteRequest asks for text sampled after the session's text and the prompt. CommitPrompt and
// CommitAll feed the prompt first, so that the model has learned from it. CommitAll then feeds the
// sampled text when it is complete. A call that fails has fed nothing.
type CompleteRequest struct {
	Prompt      []byte   // fed after the session's text; may be empty
	MaxTokens   int      // maximum number of sampled tokens, >= 1
	Temperature *float64 // with 0 each token is the likeliest; nil means 1
	// (0, 1]: sample among the likeliest tokens that together have this probability; nil means 1,
	// all
	TopP   *float64
	TopK   int      // sample among the TopK likeliest tokens; 0 means all
	MinP   float64  // [0, 1]: sample tokens at least MinP times as likely as the likeliest
	Dry    *float64 // strength of the penalty on loops; 0 is none, nil is txl.DryDefault
	Seed   *uint64  // seed of the sampling, 0..SeedMax; nil: a random seed
	Stop   []string // the text ends before the first occurrence of any of these
	Commit string   // CommitNone, CommitPrompt or CommitAll; "" is CommitNone
	// Wait is as in ScoreOptions. A call that commits nothing does not wait for a turn.
	Wait time.Duration
	// LogProbs asks for every sampled token's log-probability, under the model's full distribution.
	LogProbs bool
	Top      int // number of likeliest tokens to report at each sampled token; only with LogProbs
	// From is FromAdapted or FromStatic; "" is FromAdapted. FromStatic needs the setting
	// "baseline", or a method without fast weights.
	From string
}

// Piece is a part of a growing completion: whole UTF-8 characters if the model writes valid UTF-8.
type Piece struct {
	Text     []byte
	LogProbs []float64     // natural logarithms, one for each token of Text; nil unless asked for
	Top      [][]Candidate // the likeliest tokens at each token of Text; nil unless asked for

	// Words are the tokens of LogProbs for a model of words: those whose last byte is in Text.
	// Their sizes, in bytes, cover all pieces without gaps. A token may begin in the piece before,
	// and a piece may have words but no text. Words is empty for a model of bytes, where each byte
	// of Text is a token.
	Words tokenizer.Tokens

	// The remaining fields are set only for a batch.
	Index int // index of the text to which the piece belongs
	// FinishReason says why the text ended, and Tokens is the number of sampled tokens, with those
	// of a stop string. Both are set only in the last piece of a text, whose Text may be empty.
	FinishReason string
	Tokens       int
	// Offset is the session's offset after the commit of a batch, in the last piece; else nil.
	Offset *int64
}

// Candidate is a token that could have come next.
type Candidate struct {
	ID      int32
	LogProb float64 // natural logarithm, under the model's full distribution
}

// BatchRequest asks for texts that continue one or several prompts, each of which follows the
// session's text. Without Commit nothing is learned from a prompt. A prompt does not affect the
// others.
type BatchRequest struct {
	// as in a CreateRequest; not used if the batch continues a session
	Model       string
	Prompts     [][]byte // 1 or more; each may be empty
	N           int      // texts after each prompt, >= 1
	MaxTokens   int      // tokens sampled for each text; may be 0
	Temperature *float64 // as in a CompleteRequest, like TopP, TopK, MinP and Dry
	TopP        *float64
	TopK        int
	MinP        float64
	Dry         *float64
	// seed of the first text after each prompt; each next text has the next seed
	Seed     *uint64
	Stop     []string
	Suffix   []byte // text after the gap that each text fills; nil if there is none
	Echo     bool   // each text begins with its prompt and the scores of its tokens
	LogProbs bool   // report the log-probability of every token of the texts
	Top      int    // number of likeliest tokens to report at each token; only with LogProbs

	// Commit is as in a CompleteRequest, for a batch that continues a session with one prompt.
	// CommitAll also needs N to be 1.
	Commit string
	Offset *int64        // as in ScoreOptions; only with Commit
	Wait   time.Duration // as in ScoreOptions; only with Commit
}

// Completion is the result of one Complete call as a whole.
type Completion struct {
	Text             []byte // the concatenation of all pieces
	FinishReason     string // FinishStop or FinishLength
	PromptTokens     int
	CompletionTokens int    // sampled tokens, with those of the stop string
	Seed             uint64 // seed in force
	Offset           int64  // offset of the session after the call
}

// ModelInfo describes a model that sessions of a Manager share.
type ModelInfo struct {
	ID         string          // name and the start of the content hash: "NAME-HASH"
	Hash       string          // content hash of the weights file
	Name       string          // as the weights file gives it
	Created    time.Time       // when the Manager began to serve it, UTC: weights have no date
	Parameters int64           // slow weights, without meta-learners
	Config     json.RawMessage // the configuration: a JSON object with the keys of a weights file
	Tokenizer  string          // tokenizer.KindBytes or tokenizer.KindWords
	Vocab      int             // number of tokens: ids are 0 to Vocab-1
	Start      int32           // the token before the first token of a text
	TokenBytes int             // the length of the longest token, in bytes, as Spell writes it
	Banks      int             // banks of fast weights; the setting "gammas" has a number for each
	Defaults   Settings        // settings of a session created without settings; none is missing
	Card       json.RawMessage // the makers' description: a JSON object, or nil

	WeightsBytes int64 // memory of the weights
	SessionBytes int64 // memory of the state of a session with the defaults
	Loaded       bool  // the weights are in memory

	text tokenizer.Tokenizer // nil means the tokenizer of bytes
}

// ShadowsMax is how many shadows a session may have.
const ShadowsMax = 4

// Shadow describes the other side of a shadow: a session's Info describes the shadow, and a
// shadow's Info the session.
type Shadow struct {
	ID     string // id of the other session
	Name   string // name of the other session
	Model  string // ModelInfo.ID of the other session's model
	Words  bool   // the tokens of the other session's model are words
	Offset int64  // the shadow's offset
	Behind int64  // bytes that the shadow has not been fed yet
	// Err is why the shadow is not being fed. It is nil if the shadow is being fed, or has all of
	// the text.
	Err error
	// Compared has the totals of both sessions at the last offset at which both are known. It is
	// nil if there was no such offset yet.
	Compared *Comparison
}

// Comparison has the totals of a session and its shadow at one offset.
type Comparison struct {
	Offset           int64
	Followed, Shadow Tally
}

// Package session keeps the live sessions of one or several models: their text, the order of their
// chunks and their states. A session is a deterministic function of the weights, its settings, its
// seed and its bytes.
//
// This file has the plain types that callers of the Manager use, errors.go the errors.
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

// What a completion leaves in its session: values of CompleteRequest.Commit.
const (
	CommitNone   = "none"   // nothing: the session stays as it was
	CommitPrompt = "prompt" // the prompt is fed to the session, as by Score
	CommitAll    = "all"    // the prompt and the text that was sampled
)

// The model that a completion is sampled from: values of CompleteRequest.From.
const (
	FromAdapted = "adapted" // as the session has adapted it
	FromStatic  = "static"  // as it is without adaptation, after the same text
)

// What a session learns of a text that is scored: values of ScoreOptions.Learn.
const (
	LearnTrue  = "true"  // the text, which is the session's from then on
	LearnFalse = "false" // nothing: the session stays as it was
	// The text is the session's from then on, which learns from those of its lines that are not
	// flagged.
	LearnUnflagged = "unflagged"
)

// UnlearntBytesMax is the largest length of a text that is scored with LearnFalse, in bytes.
const UnlearntBytesMax = 8 << 20

// Why a completion ended: values of Completion.FinishReason.
const (
	FinishStop   = "stop"   // a stop string was met
	FinishLength = "length" // MaxTokens tokens were sampled
)

// How much of its text a session keeps: values of CreateRequest.History.
const (
	HistoryFull = "full" // all of it
	HistoryTail = "tail" // what recovery needs: it cannot be forked, or looked at, at older offsets
)

// SeedMax is the largest seed a session or a completion has. Seeds end below 2^53 so that every
// JSON reader keeps them exactly.
const SeedMax = 1<<53 - 1

// Settings say how a session adapts, by the names of stream.Table. A setting that is missing stands
// for the model's default for the method; in an Info none is missing. The settings of another
// method than the session's are held to their ranges and have no effect.
type Settings = setting.Values

// Caller is who asks. The zero value is the one anonymous owner of a server without keys. To a
// caller that may not see a session it does not exist.
type Caller struct {
	Key         string // id of its key; what it makes belongs to it
	Admin       bool   // sees the sessions of all
	MaxSessions int    // live sessions of its key; 0: no limit but the Manager's
	// bytes of the disk that its key's sessions may take; 0: no limit but the disk's
	MaxDisk int64
}

// sees says whether the sessions of an owner exist for the caller.
func (c Caller) sees(owner string) bool { return c.Admin || c.Key == owner }

// CreateRequest describes a session to be made. The zero value is a session with the model's
// defaults, a random seed and no expiry.
type CreateRequest struct {
	Model    string // ModelInfo.ID or Name of the model that the session runs on; "": the default
	Settings Settings
	Seed     *uint64           // of the masks, 0..SeedMax; nil: drawn at random
	Labels   map[string]string // kept for the caller, never interpreted
	// TTL is how long the session may go unused before it is deleted; 0: for ever.
	TTL     time.Duration
	History string // HistoryFull or HistoryTail; "" is HistoryFull
	// ShadowOf is the id or name of a session that the session is to be the shadow of; "": none.
	ShadowOf string
}

// ForkRequest describes a fork: a session with the model, settings, seed and text of another.
type ForkRequest struct {
	AtOffset *int64            // with its text up to there; nil: all of it
	Name     string            // of the fork, see CheckName; "": it has none
	Labels   map[string]string // as in a CreateRequest: not those of the other
	TTL      time.Duration
	History  string // "" is the other's
}

// Parent is where a fork comes from.
type Parent struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
}

// Tally is the account of the tokens that were scored. A word is scored when white space has come
// behind it; until then its bytes are accepted and in no Tally.
type Tally struct {
	tokenizer.Tally
	// BaselineBits is the same sum as Bits under the static model; nil unless the setting
	// "baseline" asks for it.
	BaselineBits *float64
}

// Info is what is known about a session at one moment, between two chunks.
type Info struct {
	Tally // of the session's text so far

	ID      string
	Name    string    // by which its owner finds the session, too; "": none
	Model   string    // ModelInfo.ID of the model it runs on
	Words   bool      // the tokens of that model are words; false where the model is not served
	Created time.Time // UTC
	// LastUsed is the end of the last request that fed or sampled the session, at first Created;
	// after a restart, when text came last. UTC.
	LastUsed time.Time
	Offset   int64  // in the stream, of the byte that comes next: as many bytes are accepted
	Step     uint64 // updates of the fast weights made so far
	// Pending is the number of tokens scored since the last update; a whole chunk's only while the
	// update that a full chunk causes is under way.
	Pending int
	// PendingBytes is the number of bytes at the end of the text that belong to a token that has
	// not ended: they have no bits yet. Offset is the Bytes of the Tally and PendingBytes together.
	PendingBytes int64
	MemoryBytes  int64 // memory the session occupies; 0 while it is only on disk
	DiskBytes    int64 // that the session is charged for; 0 where the store is no folder
	// Numerics is the instruction set that the session's arithmetic runs under, e.g. "amd64-avx2";
	// "" if it was not recorded.
	Numerics string
	Settings Settings // in force: none is missing
	Seed     uint64   // in force
	Labels   map[string]string
	TTL      time.Duration // 0: none
	History  string        // HistoryFull or HistoryTail
	Parent   *Parent       // nil unless it is a fork
	ShadowOf *Shadow       // nil unless it is a shadow: what it follows
	Shadows  []Shadow      // that follow it
	Recovery *Recovery     // of a session whose state is being computed again; else nil
	// Err is why the session cannot be used: it is damaged, or another model's. Then other fields
	// may be missing. It can be deleted.
	Err error
	// Owner is the id of the key that made the session; "" for the anonymous owner, and for callers
	// that are no admins.
	Owner string
}

// ScoreOptions are the options of one Score call. The zero value scores whatever comes, at whatever
// offset the session has.
type ScoreOptions struct {
	// Offset is the Info.Offset that the caller expects. If the session has another, Score fails
	// with *OffsetError and nothing changes.
	Offset   *int64
	LogProbs bool // report every token's log-probability
	Top      int  // report so many of the likeliest tokens beside each; only with LogProbs
	// Learn is LearnTrue, LearnFalse or LearnUnflagged, the latter only with Lines; "" is
	// LearnTrue. With LearnFalse the Chunks have the offsets
	// and totals that they would have if the text were the session's.
	Learn string
	// Threshold is the largest probability of a line that is flagged: one that LearnUnflagged does
	// not learn from. As long as few lines have been seen, none is flagged.
	Threshold float64
	// Lines makes lines of the text, from the first text on that is scored so, and reports them.
	// The session keeps what it knows of its lines.
	Lines bool
	// TroubleWords is a list of words of trouble, by which lines are rated, too, if they begin with
	// this text; "": none, or those of the session. Another list than the session's is refused.
	TroubleWords string
	// Incidents reports of the lines the first, the last, and those alone at which incidents have
	// news, or that are flagged and join one. Incidents that other lines have joined are told with
	// the next line that is reported.
	Incidents bool
	// Records reports records of lines instead, with Lines. The session keeps what it knows of
	// them. RecordStart is the pattern of how they begin, from this text on, "" the default; nil:
	// as in the session.
	Records     bool
	RecordStart *string
	Text        bool // report the text of lines
	TokenBits   bool // report what each byte of a line's text has cost
	// Updated, if it is not nil, is told of each update of the fast weights, after it. What is
	// measured for that is measured for no other call.
	Updated func(Update) error
	// Wait is how long the call waits for its turn while others feed the session, up to WaitMax; 0:
	// not at all.
	Wait time.Duration
	// Attend, if it is not nil, is called before each wait for anything but the body, up to the
	// first text that is accepted, and end after it. While nobody reads the body, its client may
	// leave.
	Attend func() (end func())
}

func (o ScoreOptions) attend() (end func()) {
	if o.Attend == nil {
		return func() {}
	}
	return o.Attend()
}

// Incident is what belongs together of a session's strange lines.
type Incident = incidents.Incident

// IncidentBytes is the memory of an incident as it is told, about at most.
const IncidentBytes = 4 << 10

// IncidentReport is an incident, and the verdict on incidents like it; "" if there is none.
type IncidentReport struct {
	Incident
	Verdict string
}

// Why says why a line is strange.
type Why = incidents.Why

// Line reports a line of a session's text, or what there is so far of the line under way. A line is
// the same however the text comes.
type Line struct {
	Number       int64 // of the lines of the session, from 1
	Offset       int64 // in the stream, of the line's first byte
	Bytes        int64 // its newline among them
	Chars        int64 // as in a Tally
	Bits         float64
	BaselineBits *float64 // nil unless the setting "baseline" asks for it

	lines.Strangeness // for the lines of the session before it

	Incidents []IncidentReport // what happened to incidents at the line
	Why       Why              // zero unless the text is asked for
	// without the newline, lines.TextMax bytes at most; nil unless asked for
	Text      []byte
	TokenBits []float32 // of each byte of Text; nil unless asked for
	Cut       bool      // the line has more text than lines.TextMax bytes
	Unlearnt  bool      // the session does not learn from the line, which is flagged or too long
	Lines     int64     // of the record that is reported; 0: it is a line
	first     bool      // of those that end in the text of a call
	news      bool      // its incidents tell more than that they have one more line
	Ended     bool      // with a newline; false: the text has ended, and the line may go on
}

// Chunk reports what was scored together: all or a part of one chunk of the stream, never across a
// chunk border. Its scores were fixed before the update that they cause.
type Chunk struct {
	Tally       // of the tokens reported here, the first of which may have begun before
	Total Tally // of the session, up to and with this report

	Step   uint64 // index of the chunk in the stream; the first is 0
	Offset int64  // in the stream, of the first byte of the tokens reported here
	// PendingBytes is the number of bytes accepted behind these tokens, see Info.
	PendingBytes int64
	// Elapsed is the time from having the text to this report, waiting for other sessions included.
	Elapsed time.Duration

	Complete bool    // the chunk is full; an update follows
	Updates  uint64  // updates of the fast weights made before this chunk was scored
	Written  int64   // entries the last of these wrote; 0 if none
	FastRMS  float64 // root mean square of the fast weights under which the chunk was scored
	// Diverged says that the fast weights diverged, and were reset behind this text: see
	// stream.Divergence.
	Diverged bool
	// NetworkBits are what Bits would be without the companion, under the network as it has
	// adapted; nil without a companion, and where they are not a finite number.
	NetworkBits *float64
	// LogProbs are the natural logarithms of the tokens' probabilities, [Tokens]; nil unless asked
	// for. BaselineLogProbs are those under the static model; nil, too, unless the setting
	// "baseline" asks for it.
	LogProbs, BaselineLogProbs []float64
	// Top and BaselineTop are the likeliest tokens at each token, [Tokens]; nil unless asked for.
	Top, BaselineTop [][]Candidate
	// Words are the tokens that LogProbs are of; nil where a token is a byte.
	Words *ChunkWords
	// Lines are those that end in the text reported here; nil unless asked for.
	Lines []Line
	// Records are those that end in front of a line that ends in the text reported here; nil unless
	// asked for.
	Records []Line
	// ByLine says that of these lines some may be left unlearnt.
	ByLine bool
	// Text is what was accepted with this report, from TextOffset in the stream on. Of a model of
	// words it begins behind what is pending of a token. It is told to Watch only.
	Text       []byte
	TextOffset int64
}

// ChunkWords are the tokens of a Chunk of a model of words.
type ChunkWords struct {
	Sizes []int64 // in bytes; they tile the text from Chunk.Offset on
	IDs   []int32
	After int32 // the token before the first of them, which says how it is written
}

// Update reports an update of the fast weights: what a chunk that is full has taught.
type Update struct {
	Offset  int64   // in the stream, of the first byte behind the chunk
	Step    uint64  // index of the chunk in the stream
	Updates uint64  // updates made so far, this one among them
	Written int64   // entries that it wrote
	FastRMS float64 // root mean square of the fast weights after it
	// Branches are the norms of the fast weights, by branch.
	Branches []stream.BranchNorm
	Elapsed  time.Duration // computing: backward and update, and measuring
}

// Summary is what one Score call did, in the whole.
type Summary struct {
	Tally       // of the tokens that this call completed
	Total Tally // of the session, after the call
	// NetworkBits are the sum of those of the Chunks.
	NetworkBits *float64

	Offset int64 // of the session, after the call
	// PendingBytes is the number of bytes at the end of the text that have no bits yet, see Info.
	PendingBytes int64
	Chunks       int    // reports emitted
	Divergences  int    // of these, reports that have Diverged
	Duplicate    bool   // the session had all of the delivery before
	Updates      uint64 // of the fast weights that the session has made, after the call
	// the line or record under way; nil: there is none, or no lines were asked for
	Rest *Line
	// Last is the last line that ended in the text, where Incidents alone were asked for and it was
	// not reported; or the record before Rest, if Rest is the line under way; else nil.
	Last    *Line
	Elapsed time.Duration
}

// CompleteRequest asks for text sampled after the session's text and the prompt. With CommitPrompt
// and CommitAll the prompt is fed first, so that the model has learnt from it; with CommitAll the
// sampled text is fed when it is complete. A call that fails has fed none of that.
type CompleteRequest struct {
	Prompt      []byte   // fed after the session's text; may be empty
	MaxTokens   int      // >= 1
	Temperature *float64 // 0: always the likeliest token; nil: 1
	// (0, 1]: sample among the likeliest tokens that hold this probability; nil: 1, all
	TopP   *float64
	TopK   int      // sample among the TopK likeliest tokens; 0: all
	MinP   float64  // [0, 1]: sample tokens at least MinP times as likely as the likeliest; 0: all
	Dry    *float64 // how strongly loops are avoided; nil: txl.DryDefault, 0: not at all
	Seed   *uint64  // of the sampling, 0..SeedMax; nil: drawn at random
	Stop   []string // the text ends before the first occurrence of any of these
	Commit string   // CommitNone, CommitPrompt or CommitAll; "" is CommitNone
	// Wait is as in ScoreOptions. A call that commits nothing has no turn to wait for.
	Wait time.Duration
	// LogProbs asks for every sampled token's log-probability, under the model's full distribution.
	LogProbs bool
	Top      int // report so many of the likeliest tokens beside each; only with LogProbs
	// From is FromAdapted or FromStatic; "" is FromAdapted. FromStatic needs the setting
	// "baseline", or a method without fast weights.
	From string
}

// Piece is a part of a completion as it grows: whole UTF-8 characters where the model writes such.
type Piece struct {
	Text     []byte
	LogProbs []float64     // natural logarithms, one for each token of Text; nil unless asked for
	Top      [][]Candidate // the likeliest tokens at each token of Text; nil unless asked for

	// Words are the tokens of LogProbs, of a model of words: those whose last byte is in Text.
	// Their sizes, in bytes, tile all pieces. A token may begin in the piece before, and a piece
	// may have words and no text. Empty of a model of bytes, where each byte of Text is a token.
	Words tokenizer.Tokens

	// Of a batch only:
	Index int // of the text that the piece belongs to
	// The last piece of a text, whose Text may be empty, says why the text ended and how many
	// tokens were sampled, those of a stop string included. Before it they are "" and 0.
	FinishReason string
	Tokens       int
	// Offset is the session's after a batch has committed; nil but in the last piece of such a
	// batch.
	Offset *int64
}

// Candidate is a token that a text could have gone on with.
type Candidate struct {
	ID      int32
	LogProb float64 // natural logarithm, under the model's full distribution
}

// BatchRequest asks for texts that continue the session's text and one of several prompts each. A
// batch leaves its session as it was: of no prompt is anything learnt, and none is seen by another.
type BatchRequest struct {
	// as in a CreateRequest; of a batch that continues a session, nothing depends on it
	Model       string
	Prompts     [][]byte // 1 or more; each may be empty
	N           int      // texts after each prompt, >= 1
	MaxTokens   int      // sampled for each text; 0: none
	Temperature *float64 // as in a CompleteRequest, like all that follows
	TopP        *float64
	TopK        int
	MinP        float64
	Dry         *float64
	Seed        *uint64 // of the first text after each prompt; that of the next is one more
	Stop        []string
	Suffix      []byte // behind the place that each text fills; nil: texts are not chosen by it
	Echo        bool   // each text begins with its prompt, with scores of its tokens
	LogProbs    bool   // report the log-probability of every token of the texts
	Top         int    // report so many of the likeliest tokens beside each; only with LogProbs

	// Commit is as in a CompleteRequest, of a batch that continues a session with one prompt. With
	// CommitAll it has one text.
	Commit string
	Offset *int64        // as in ScoreOptions; only with Commit
	Wait   time.Duration // as in ScoreOptions; only with Commit
}

// Completion is what one Complete call did, in the whole.
type Completion struct {
	Text             []byte // the concatenation of all pieces
	FinishReason     string // FinishStop or FinishLength
	PromptTokens     int
	CompletionTokens int    // sampled, those of the stop string included
	Seed             uint64 // in force
	Offset           int64  // of the session after the call
}

// ModelInfo describes a model that sessions of a Manager share.
type ModelInfo struct {
	ID         string          // name and the start of the content hash: "NAME-HASH"
	Hash       string          // content hash of the weights file
	Name       string          // as the weights file gives it
	Created    time.Time       // when the Manager began to serve it, UTC: weights have no date
	Parameters int64           // slow weights, meta-learners not counted
	Config     json.RawMessage // the configuration: a JSON object with the keys of a weights file
	Tokenizer  string          // its kind: tokenizer.KindBytes or tokenizer.KindWords
	Vocab      int             // tokens: their ids are 0 to Vocab-1
	Start      int32           // the token after which the first one of a text is predicted
	TokenBytes int             // the length of the longest token, in bytes, as Spell writes it
	Banks      int             // banks of fast weights; the setting "gammas" has a number for each
	Defaults   Settings        // what a session gets that asks for nothing: none is missing
	Card       json.RawMessage // what its makers say of it: a JSON object; nil if they say nothing

	WeightsBytes int64 // memory of the weights
	SessionBytes int64 // memory of the state of a session that has the defaults
	Loaded       bool  // the weights are in memory

	text tokenizer.Tokenizer // nil: bytes
}

// ShadowsMax is how many shadows a session may have.
const ShadowsMax = 4

// Shadow is what is told of the two ends of a shadow: to the session that it follows of the shadow,
// and to the shadow of the session.
type Shadow struct {
	ID     string // of the other
	Name   string // of the other
	Model  string // ModelInfo.ID of the other's
	Words  bool   // the tokens of the other's model are words
	Offset int64  // of the shadow: how far it has come
	Behind int64  // bytes that it has not been fed yet
	// Err is why the shadow does not go on; nil if it does, or has come to the end.
	Err error
	// Compared are totals of both at the same offset, the last where that could be done; nil: at
	// none yet.
	Compared *Comparison
}

// Comparison has the totals of a session and its shadow at one offset.
type Comparison struct {
	Offset           int64
	Followed, Shadow Tally
}

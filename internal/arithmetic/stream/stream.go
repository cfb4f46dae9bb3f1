// Package stream implements an adaptive stream of text. For each chunk of the text, a stream
// computes the scores and the gradient, and then updates its fast weights.
//
// The package connects the packages txl and sparsemeta, which do not import each other. A Stream is
// the state. A Worker has the memory and threads that advance a stream. Neither of the two types
// handles concurrency, the order of requests, or storage.
package stream

import (
	"slices"
	"sync/atomic"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/lines"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// Stream is the state after a text was read. The state depends only on the model, the settings and
// the bytes fed.
//
// Chunk t contains the tokens [t*Chunk, (t+1)*Chunk) of the text as targets. The input for each
// target is the token before the target; the first target follows the tokenizer's start token.
// Every token is scored when the token is complete: a byte at once, a word when white space
// follows. Text after the last complete token is kept in Text, and Tally does not count this text
// yet. So Offset is Tally.Bytes plus the size of Text.
type Stream struct {
	Settings   Settings
	Tally      tokenizer.Tally
	Baseline   tokenizer.Tally // totals under the static model, if Settings.Baseline is true
	Step       uint64          // number of full chunks so far
	Written    int             // number of fast weights that the last update wrote
	Pending    []int32         // target tokens of the unfinished chunk
	Last       int32
	Divergence Divergence
	Text       tokenizer.Pending // incomplete last token; empty if tokens are bytes

	Memory *txl.Memory
	// StaticMemory is the memory of the static model, or nil if the static model does not read the
	// text. Only the layers whose input differs from the adaptive model's are in StaticMemory.
	StaticMemory *txl.Memory

	// At most one of Fast and Dynamic is not nil: the state of the method.
	Fast    *sparsemeta.State
	Dynamic *sparsemeta.Dynamic

	// Companion has counts of bytes, and Cache has recent words. With the method Cache, Cache is
	// the state of the method itself.
	Companion *companion.State
	Cache     *sparsemeta.Cache
	slopes    []float32

	lines       *lines.Meter
	linesFrom   *int64 // offset from which lines are scored; nil: no lines
	trouble     string
	records     *lines.Records
	recordsNext *lines.Records
	held        *held // nil if the stream has never learned by lines

	model   *model.Model
	dynamic Arena
	id      uint64
	learnt  uint64 // identifies the fast weights; a frozen copy has its origin's number
	frozen  bool
	drawn   uint64 // number of bytes at the end of the text that were sampled and not learned
}

// nextID is the last id given to a stream of this process. Workers identify streams by their ids.
var nextID atomic.Uint64

// New returns a stream without text. The settings must be valid.
func New(m *model.Model, set Settings) *Stream {
	s := &Stream{Settings: set, model: m, Last: m.Tokenizer.Start(), id: nextID.Add(1)}
	s.learnt = s.id
	s.Memory = txl.NewMemory(m.LM.Config, 1)
	s.Pending = make([]int32, 0, set.Chunk)
	s.Text.Word = make([]byte, 0, m.Tokenizer.PendingMax())
	if set.runsStatic(m) {
		s.StaticMemory = txl.NewMemoryAbove(m.LM.Config, 1, set.layersAlike(m))
	}
	if set.counts(m) {
		s.Companion = companion.New(set.companion())
	}
	if set.learnsMixture(m) {
		s.slopes = make([]float32, 0, slopesOfByte*set.Chunk)
	}
	if set.caches(m) {
		s.Cache = sparsemeta.NewCache(set.Cache, m.LM.Config.DModel)
		if set.Method != Cache {
			s.Cache.Warm = companionWarm
		}
	}
	switch set.Method {
	case SparseMeta:
		rule := s.rule()
		s.Fast = rule.NewState(set.Seed)
	case DynamicSGD:
		s.Dynamic = sparsemeta.NewDynamic(model.Weights(m.LM.Layout), set.SGD, nil)
		s.dynamic = arenaOfAll(m.LM.Layout, s.Dynamic.M)
	case DynamicRMS:
		s.Dynamic = sparsemeta.NewDynamic(model.Weights(m.LM.Layout), set.RMS, m.Statistics)
		s.dynamic = arenaOfAll(m.LM.Layout, s.Dynamic.M)
	}
	return s
}

func (s *Stream) rule() Rule {
	return Rule{Learner: s.model.Learner, Tables: s.model.Tables, Settings: s.Settings.Adapt,
		Precision: ServingPrecision}
}

// Frozen returns a copy of s that reads more text without learning. The copy shares the fast
// weights of s, so s must not settle a chunk while the copy is in use. Memory, cache and pending
// chunk are copied, so the copy never changes s. The copy has no Snapshot.
func (s *Stream) Frozen() *Stream {
	f := *s
	f.id, f.frozen = nextID.Add(1), true
	f.Settings.Baseline, f.StaticMemory = false, nil
	f.lines, f.linesFrom, f.held, f.slopes = nil, nil, nil, nil
	f.records, f.recordsNext = nil, nil
	f.Pending = append(make([]int32, 0, f.Settings.Chunk), f.Pending...)
	f.Text.Word = append(make([]byte, 0, cap(s.Text.Word)), s.Text.Word...)
	f.Memory = txl.NewMemory(s.model.LM.Config, 1)
	f.Memory.CopyFrom(s.Memory)
	if s.Cache != nil {
		f.Cache = s.Cache.Copy()
		if s.held != nil {
			f.held = &held{marking: marking{slices.Clone(s.held.marks), s.held.line}}
		}
	}
	if s.Companion != nil {
		f.Companion = s.Companion.Clone()
	}
	if f.Settings.runsStatic(s.model) {
		f.StaticMemory = s.copyStatic()
	}
	return &f
}

func (s *Stream) copyStatic() *txl.Memory {
	c := txl.NewMemoryAbove(s.model.LM.Config, 1, s.Settings.layersAlike(s.model))
	c.CopyFrom(s.StaticMemory)
	return c
}

// Static returns a Frozen copy that continues under the static model, as if the stream had never
// adapted. Settings.HasStatic must be true.
func (s *Stream) Static() *Stream {
	f := s.Frozen()
	f.Fast, f.Dynamic, f.dynamic, f.Cache, f.Companion = nil, nil, Arena{}, nil, nil
	if f.StaticMemory = nil; s.StaticMemory != nil {
		f.Memory.CopyFrom(s.StaticMemory)
	}
	return f
}

// Reader returns a Frozen copy. If s scores with the static model, the copy also does; if s rates
// lines, the copy also rates them.
func (s *Stream) Reader() *Stream {
	f := s.Frozen()
	if s.Settings.Baseline {
		f.Settings.Baseline, f.StaticMemory = true, s.copyStatic()
	}
	if s.lines != nil {
		f.lines = s.lines.Clone()
	}
	if s.records != nil {
		f.records = s.records.Clone()
	}
	return f
}

// StateBytes returns the memory, in bytes, of a stream with these settings, without its state of
// lines.
func StateBytes(m *model.Model, set Settings) int64 {
	c, layout := m.LM.Config, m.LM.Layout
	layers := c.NLayer
	if set.runsStatic(m) {
		layers += c.NLayer - set.layersAlike(m)
	}
	memory := 4 * int64(layers) * int64(c.MemLen) * int64(c.DModel)
	bytes := 4*int64(set.Chunk) + memory + int64(m.Tokenizer.PendingMax())
	if set.counts(m) {
		bytes += companion.Bytes(set.companion()) + set.slopesBytes(m)
	}
	if set.caches(m) {
		bytes += 4 * int64(set.Cache.Size) * int64(c.DModel+1)
	}
	switch set.Method {
	case SparseMeta: // I and M of every bank, 16 bits per element
		bytes += 2 * 2 * int64(len(set.Adapt.Gammas)) * int64(m.ArenaSize())
	case DynamicSGD:
		bytes += sparsemeta.DynamicBytes(layout.Size, 0)
	case DynamicRMS:
		bytes += sparsemeta.DynamicBytes(layout.Size, len(layout.Tensors))
	}
	return bytes
}

// OfWords reports whether the stream's tokens are words instead of bytes.
func (s *Stream) OfWords() bool { return s.model.OfWords() }

// LearnsByLine reports whether the stream has ever learned by lines.
func (s *Stream) LearnsByLine() bool { return s.held != nil }

// Offset returns the number of bytes of text that the stream has accepted.
func (s *Stream) Offset() int64 { return s.Tally.Bytes + s.Text.Size() }

// Room returns the number of tokens until the current chunk is full. After Settle, Room is at least
// 1.
func (s *Stream) Room() int { return s.Settings.Chunk - len(s.Pending) }

// Updates returns the number of updates of the fast weights so far: 0 for a method without fast
// weights. A skipped chunk (Settings.SkipBelow) counts as an update.
func (s *Stream) Updates() uint64 {
	if s.Fast == nil && s.Dynamic == nil {
		return 0
	}
	return s.Step
}

// FastRMS returns the root mean square of the fast weights, or 0 if the method has none.
func (s *Stream) FastRMS() float64 {
	switch {
	case s.Fast != nil:
		return s.Fast.RMS(s.model.Arithmetic.Vectors())
	case s.Dynamic != nil:
		return s.Dynamic.RMS(s.model.Arithmetic.Vectors())
	}
	return 0
}

// MemoryBytes returns the memory that the stream occupies, in bytes. The number does not depend on
// the text, but a stream that rates lines needs more.
func (s *Stream) MemoryBytes() int64 {
	n := cap(s.Pending)
	for _, mem := range []*txl.Memory{s.Memory, s.StaticMemory} {
		if mem != nil {
			for _, l := range mem.Layers {
				n += len(l)
			}
		}
	}
	bytes := 4*int64(n) + int64(cap(s.Text.Word))
	if s.lines != nil {
		bytes += LinesBytes
	}
	if s.held != nil {
		bytes += HeldBytes(s.model, s.Settings)
	}
	if s.Companion != nil {
		bytes += companion.Bytes(s.Companion.Settings()) + 4*int64(cap(s.slopes))
	}
	if s.Cache != nil {
		bytes += s.Cache.Bytes()
	}
	switch {
	case s.Fast != nil:
		bytes += s.Fast.Bytes()
	case s.Dynamic != nil:
		bytes += s.Dynamic.Bytes()
	}
	return bytes
}

// LinesBytes is the maximum memory, in bytes, of a stream's state of lines.
const LinesBytes = lines.MeterBytes

// Before returns the last complete token of the stream's text.
func (s *Stream) Before() int32 {
	if n := len(s.Pending); n > 0 {
		return s.Pending[n-1]
	}
	return s.Last
}

package stream

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"

	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// Hash returns the SHA-256, in hexadecimal, of the stream's tallies and of all state on which its
// later scores depend. Equal states have equal hashes.
func (s *Stream) Hash() string {
	h := sha256.New()
	for _, t := range []tokenizer.Tally{s.Tally, s.Baseline} {
		hashInts(h, uint64(t.Bytes), uint64(t.Chars), uint64(t.Tokens), math.Float64bits(t.Bits))
	}
	if s.model.OfWords() {
		s.hashWords(h)
	}
	hashInts(h, s.Step, uint64(s.Written), uint64(s.Last), uint64(len(s.Pending)))
	for _, id := range s.Pending {
		hashInts(h, uint64(id))
	}
	if d := s.Divergence; d.Count > 0 {
		hashInts(h, uint64(d.Count), uint64(d.Offset), uint64(d.Step))
	}
	s.hashMemory(h, s.Memory)
	s.hashMemory(h, s.StaticMemory)
	switch {
	case s.Fast != nil:
		h.Write([]byte(s.Fast.Hash()))
	case s.Dynamic != nil:
		h.Write([]byte(s.Dynamic.Hash()))
	}
	if s.Cache != nil {
		h.Write([]byte(s.Cache.Hash()))
	}
	if s.Companion != nil {
		h.Write(s.Companion.AppendTo(nil))
	}
	for _, v := range s.slopes {
		hashInts(h, uint64(math.Float32bits(v)))
	}
	if s.held != nil {
		for _, n := range s.lineNumbers() {
			hashInts(h, uint64(n))
		}
		for _, mark := range s.held.marks {
			hashInts(h, uint64(mark))
		}
		if s.held.line[lineCarries] != carriesNothing {
			for _, v := range s.held.gradient {
				hashInts(h, uint64(math.Float32bits(v)))
			}
		}
		if before := s.beforeLine(); before != nil {
			h.Write(before.AppendTo(nil))
		}
	}
	if s.lines != nil {
		h.Write(s.lines.AppendState(nil))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Stream) hashWords(h hash.Hash) {
	for _, t := range []tokenizer.Tally{s.Tally, s.Baseline} {
		hashInts(h, uint64(t.Unknown), uint64(t.UnknownBytes), uint64(t.UnknownChars),
			math.Float64bits(t.UnknownBits))
	}
	p, line := &s.Text, uint64(0)
	if p.Line {
		line = 1
	}
	hashInts(h, uint64(p.Space), uint64(p.More), uint64(p.Chars), line, uint64(len(p.Word)))
	h.Write(p.Word)
	if p.Ended > 0 {
		hashInts(h, uint64(p.Ended))
	}
}

// hashMemory hashes the used rows of the memory. A nil layer means the layer of s.Memory with the
// same index.
func (s *Stream) hashMemory(h hash.Hash, mem *txl.Memory) {
	if mem == nil {
		return
	}
	hashInts(h, uint64(mem.Len))
	var bits [4]byte
	for l, layer := range mem.Layers {
		if layer == nil {
			layer = s.Memory.Layers[l]
		}
		for _, v := range layer[:mem.Len*s.model.LM.Config.DModel] {
			binary.LittleEndian.PutUint32(bits[:], math.Float32bits(v))
			h.Write(bits[:])
		}
	}
}

func hashInts(h hash.Hash, values ...uint64) {
	for _, v := range values {
		h.Write(binary.LittleEndian.AppendUint64(nil, v))
	}
}

package stream

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/lmserve/lmserve/internal/arithmetic/companion"
	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

type header struct {
	Version      int         `json:"version"`
	Model        string      `json:"model"`
	Numerics     string      `json:"numerics"`
	Settings     Settings    `json:"settings"`
	Step         uint64      `json:"step"`
	Written      int         `json:"written"`
	Last         int32       `json:"last"`
	Tally        tally       `json:"tally"`
	BaselineBits float64     `json:"baseline_bits"`
	Divergence   *Divergence `json:"divergence,omitempty"`

	// The remaining fields exist only in streams of words.
	BaselineUnknownBits float64  `json:"baseline_unknown_bits,omitempty"`
	Text                *pending `json:"text,omitempty"`
}

type tally struct {
	Bytes  int64   `json:"bytes"`
	Chars  int64   `json:"chars"`
	Tokens int64   `json:"tokens"`
	Bits   float64 `json:"bits"`

	// The remaining fields exist only in streams of words.
	Unknown      int64   `json:"unknown,omitempty"`
	UnknownBytes int64   `json:"unknown_bytes,omitempty"`
	UnknownChars int64   `json:"unknown_chars,omitempty"`
	UnknownBits  float64 `json:"unknown_bits,omitempty"`
}

// pending is tokenizer.Pending without the word, which a snapshot stores as a tensor.
type pending struct {
	Space int64 `json:"space"`
	More  int64 `json:"more"`
	Line  bool  `json:"line"`
	Chars int64 `json:"chars"`
	Ended int64 `json:"ended,omitempty"`
}

// Snapshot returns the stream as a file from which Restore makes a stream that continues
// bit-identically. The file shares no memory with the stream. Snapshot fails in the same cases as
// Stored.
func (s *Stream) Snapshot() (*weights.File, error) {
	f, err := s.Stored()
	if err != nil {
		return nil, err
	}
	return f.Load()
}

// Stored is like Snapshot, but the file refers to the stream's data: the stream must not change
// while the file is read. Stored returns an error for a frozen stream. It also returns an error for
// a non-finite number, because Restore would refuse the snapshot.
func (s *Stream) Stored() (*weights.Stored, error) {
	if s.frozen {
		return nil, errors.New("stream: snapshot: a frozen stream cannot be stored, because the " +
			"restored stream would learn")
	}
	text, err := json.Marshal(s.header())
	if err != nil {
		return nil, fmt.Errorf("stream: snapshot: %w", err)
	}
	f := &weights.Stored{Metadata: map[string]string{keySnapshot: string(text)}}
	for _, p := range s.parts() {
		if err := p.finite(); err != nil {
			return nil, fmt.Errorf("stream: snapshot: %w", err)
		}
		f.Tensors = append(f.Tensors, p.tensor())
	}
	if s.model.OfWords() {
		f.Tensors = append(f.Tensors, bytesTensor(tensorWord, s.Text.Word))
	}
	if s.lines != nil {
		f.Tensors = append(f.Tensors, bytesTensor(tensorLines, s.lines.AppendState(nil)))
	}
	if s.records != nil {
		f.Tensors = append(f.Tensors, bytesTensor(tensorRecords, s.records.AppendState(nil)))
	}
	for _, c := range s.companions() {
		if err := c.state.Check(); err != nil {
			return nil, fmt.Errorf("stream: snapshot: %w", err)
		}
		size := companion.EncodedBytes(c.state.Settings())
		f.Tensors = append(f.Tensors, weights.StoredTensor{
			Name: c.name, DType: weights.U8, Shape: []int{int(size)}, Bytes: size, Data: c.state,
		})
	}
	return f, nil
}

func (s *Stream) header() header {
	h := header{
		Version: snapshotVersion, Model: s.model.Hash(), Numerics: s.model.Arithmetic.Numerics(),
		Settings: s.Settings, Step: s.Step, Written: s.Written, Last: s.Last,
		Tally: tally(s.Tally), BaselineBits: s.Baseline.Bits,
		BaselineUnknownBits: s.Baseline.UnknownBits,
	}
	if s.Divergence.Count > 0 {
		h.Divergence = &s.Divergence
	}
	if s.model.OfWords() {
		h.Text = &pending{s.Text.Space, s.Text.More, s.Text.Line, s.Text.Chars, s.Text.Ended}
	}
	return h
}

func bytesTensor(name string, data []byte) weights.StoredTensor {
	return weights.StoredTensor{
		Name: name, DType: weights.U8, Shape: []int{len(data)}, Bytes: int64(len(data)),
		Data: bytes.NewReader(data),
	}
}

// part is an array of the stream's state, with the name and shape of its tensor. The array is
// either tokens or floats.
type part struct {
	name   string
	shape  []int
	tokens []int32
	floats kernel.Array
	most   int32 // largest valid token; 0 means the largest of the vocabulary
	any    bool  // floats may be NaN or infinite
}

// parts returns all arrays of the state, in the order in which a snapshot stores them.
func (s *Stream) parts() []part {
	all := []part{{name: "pending", shape: []int{len(s.Pending)}, tokens: s.Pending}}
	all = s.appendMemory(all, prefixMemory, s.Memory)
	all = s.appendMemory(all, prefixStatic, s.StaticMemory)
	switch {
	case s.Fast != nil:
		for bank := range s.Fast.M {
			all = s.appendBank(all, bank)
		}
	case s.Dynamic != nil:
		layout := s.model.LM.Layout
		for i, m := range s.dynamic.Views {
			all = append(all, part{name: "dynamic.M." + layout.Tensors[i].Name,
				shape: layout.Tensors[i].Shape, floats: kernel.Array{F32: m}})
		}
	}
	if s.Cache != nil {
		n, width := s.Cache.Len, s.model.LM.Config.DModel
		all = append(all,
			part{name: "cache.keys", shape: []int{n, width},
				floats: kernel.Array{F32: s.Cache.Keys[:n*width]}},
			part{name: tensorNext, shape: []int{n}, tokens: s.Cache.Next[:n]})
	}
	if s.slopes != nil {
		all = append(all, part{
			name: "companion.slopes", shape: []int{len(s.Pending), slopesOfByte},
			floats: kernel.Array{F32: s.slopes},
		})
	}
	if s.held != nil {
		all = s.appendHeld(all)
	}
	return all
}

func (s *Stream) appendHeld(all []part) []part {
	h, line := s.held, s.lineNumbers()
	all = append(all,
		part{name: tensorHeld, shape: []int{len(line)}, tokens: line, most: HeldMax + 1},
		part{name: tensorMarks, shape: []int{len(h.marks)}, tokens: h.marks, most: tokenOpen})
	if h.line[lineCarries] == carriesNothing {
		return all
	}
	floats := kernel.Array{F32: h.gradient}
	return append(all, part{
		name: tensorCarried, shape: []int{len(h.gradient)}, floats: floats, any: true,
	})
}

// appendBank appends, for every branch, a bank's gradient averages I and fast weights M.
func (s *Stream) appendBank(all []part, bank int) []part {
	layout, at := s.model.LM.Layout, 0
	name := func(what, branch string) string {
		return fmt.Sprintf("fast.%d.%s.%s", bank, what,
			branch)
	}
	for _, b := range s.model.Learner.Branches {
		shape := layout.Tensors[layout.Index(b.Name)].Shape
		all = append(all,
			part{name: name("I", b.Name), shape: shape, floats: s.Fast.I[bank].Range(at, at+b.Size),
				any: true},
			part{name: name("M", b.Name), shape: shape, floats: s.Fast.M[bank].Range(at,
				at+b.Size)})
		at += b.Size
	}
	return all
}

const (
	prefixMemory = "memory."
	prefixStatic = "baseline.memory." // memory of the static model
)

// appendMemory appends the used rows of a memory. mem and its layers may be nil.
func (s *Stream) appendMemory(all []part, prefix string, mem *txl.Memory) []part {
	if mem == nil {
		return all
	}
	width := s.model.LM.Config.DModel
	for l, rows := range mem.Layers {
		if rows == nil {
			continue
		}
		all = append(all, part{name: prefix + strconv.Itoa(l), shape: []int{mem.Len, width},
			floats: kernel.Array{F32: rows[:mem.Len*width]}})
	}
	return all
}

func (p *part) tensorType() weights.DType {
	switch {
	case p.tokens != nil:
		return weights.I32
	case p.floats.BF16 != nil:
		return weights.BF16
	}
	return weights.F32
}

func (p *part) tensor() weights.StoredTensor {
	t := weights.StoredTensor{Name: p.name, DType: p.tensorType(), Shape: p.shape, Data: p}
	t.Bytes = int64(t.DType.Size() * t.Elements())
	return t
}

func (p *part) element(i int64) uint32 {
	switch {
	case p.tokens != nil:
		return uint32(p.tokens[i])
	case p.floats.BF16 != nil:
		return uint32(p.floats.BF16[i])
	}
	return math.Float32bits(p.floats.F32[i])
}

func (p *part) setElement(i int64, bits uint32) {
	switch {
	case p.tokens != nil:
		p.tokens[i] = int32(bits)
	case p.floats.BF16 != nil:
		p.floats.BF16[i] = uint16(bits)
	default:
		p.floats.F32[i] = math.Float32frombits(bits)
	}
}

// ReadAt implements io.ReaderAt: it reads the array in the little-endian form of a snapshot file.
func (p *part) ReadAt(b []byte, at int64) (n int, err error) {
	var element [4]byte
	size := int64(p.tensorType().Size())
	end := size * int64(len(p.tokens)+p.floats.Len())
	for n < len(b) && at < end {
		binary.LittleEndian.PutUint32(element[:], p.element(at/size))
		k := copy(b[n:], element[at%size:size])
		n, at = n+k, at+int64(k)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (p *part) finite() error {
	if p.any {
		return nil
	}
	for i := range p.floats.Len() {
		if v := p.floats.At(i); v-v != 0 { // true for NaN and infinite v
			return fmt.Errorf("tensor %q, element %d is %v, expected a finite number", p.name, i, v)
		}
	}
	return nil
}

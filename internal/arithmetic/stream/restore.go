package stream

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

const readBufferBytes = 64 << 10

// Restore returns the stream of a snapshot. m must be the snapshot's model, and set must equal the
// snapshot's settings. Restore reads the tensors in the order in which Snapshot writes them.
// numerics names the snapshot's arithmetic (kernel.Arithmetic.Numerics). With a different
// arithmetic, the stream does not continue bit-identically. An error names the place in the file,
// the value found and the value expected.
func Restore(m *model.Model, set Settings, f *weights.Stored) (s *Stream, numerics string,
	err error) {
	s, numerics, err = restore(m, set, f)
	if err != nil {
		return nil, "", fmt.Errorf("stream: snapshot: %w", err)
	}
	return s, numerics, nil
}

// Finite returns an error if a number of the state, or the sum of the squared fast weights, is not
// finite. Restore accepts non-finite gradient averages, because a non-finite gradient may have left
// them. A stream from another server must not contain non-finite numbers.
func (s *Stream) Finite() error {
	for _, p := range s.parts() {
		p.any = false
		if err := p.finite(); err != nil {
			return fmt.Errorf("stream: %w", err)
		}
	}
	if rms := s.FastRMS(); rms-rms != 0 {
		return fmt.Errorf("stream: the root mean square of the fast weights is %v, "+
			"expected a finite number", rms)
	}
	return nil
}

// SettingsOf returns the settings of the stream in a snapshot.
func SettingsOf(f *weights.Stored) (Settings, error) {
	h, err := readHeader(f)
	if err != nil {
		return Settings{}, fmt.Errorf("stream: snapshot: %w", err)
	}
	return h.Settings, nil
}

func restore(m *model.Model, set Settings, f *weights.Stored) (*Stream, string, error) {
	h, err := readHeader(f)
	if err != nil {
		return nil, "", err
	}
	if err := h.check(m, set); err != nil {
		return nil, "", fmt.Errorf("metadata %s: %w", keySnapshot, err)
	}
	s := New(m, set)
	s.Step, s.Written, s.Last = h.Step, h.Written, h.Last
	s.Tally = tokenizer.Tally(h.Tally)
	if h.Divergence != nil {
		s.Divergence = *h.Divergence
	}
	if set.Baseline {
		s.Baseline = s.Tally
		s.Baseline.Bits, s.Baseline.UnknownBits = h.BaselineBits, h.BaselineUnknownBits
	}
	s.reserveStatic(f)
	s.reserve()
	s.reserveHeld(f)
	parts := s.parts()
	for i := range parts {
		if err := parts[i].read(f, m.Tokenizer.Vocab()); err != nil {
			return nil, "", err
		}
	}
	if err := s.shareStatic(); err != nil {
		return nil, "", err
	}
	if s.held != nil {
		_, carries := f.Tensor(tensorCarried)
		if err := s.checkHeld(carries); err != nil {
			return nil, "", err
		}
	}
	if err := s.readText(f, h.Text); err != nil {
		return nil, "", err
	}
	if err := s.readLines(f); err != nil {
		return nil, "", err
	}
	if err := s.readCompanions(f); err != nil {
		return nil, "", err
	}
	want := len(parts)
	for _, c := range s.companions() {
		if _, ok := f.Tensor(c.name); ok {
			want++
		}
	}
	if s.lines != nil {
		want++
	}
	if s.records != nil {
		want++
	}
	if m.OfWords() {
		want++
	}
	if len(f.Tensors) != want {
		return nil, "", surplus(f, parts)
	}
	if err := s.checkCompanions(f); err != nil {
		return nil, "", err
	}
	if s.Fast != nil {
		s.Fast.Step = s.Step // Step counts chunks, with or without an update
	}
	return s, h.Numerics, nil
}

// readHeader accepts a header only in the exact form that Snapshot writes. Unknown fields could
// change the meaning of the others, and a missing field must not be read as 0.
func readHeader(f *weights.Stored) (h header, err error) {
	text, ok := f.Metadata[keySnapshot]
	if !ok {
		return h, fmt.Errorf("metadata %s is missing: the file is not a snapshot", keySnapshot)
	}
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return h, fmt.Errorf("metadata %s: %w", keySnapshot, err)
	}
	if h.Version != snapshotVersion {
		return h, fmt.Errorf("metadata %s: version is %d, expected %d", keySnapshot, h.Version,
			snapshotVersion)
	}
	if want := asJSON(h); text != want {
		at := 0
		for at < min(len(text), len(want)) && text[at] == want[at] {
			at++
		}
		return h, fmt.Errorf("metadata %s: byte %d: found %s, expected %s", keySnapshot, at,
			excerpt(text[at:]), excerpt(want[at:]))
	}
	return h, nil
}

func excerpt(text string) string { return fmt.Sprintf("%.24q", text) }

// asJSON encodes a value whose encoding cannot fail.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// check compares the header with the model and the session's settings, and checks that its numbers
// are consistent.
func (h *header) check(m *model.Model, set Settings) error {
	if err := set.Validate(m); err != nil {
		return err
	}
	if h.Model != m.Hash() {
		return fmt.Errorf("model is %q, expected %s (%s)", h.Model, m.Hash(), m.Name)
	}
	if found, want := asJSON(h.Settings), asJSON(set); found != want {
		return fmt.Errorf("settings are %s, expected the session's settings: %s", found, want)
	}
	if err := h.checkText(m.OfWords()); err != nil {
		return err
	}
	if err := h.Divergence.check(h, set); err != nil {
		return err
	}
	chunk, tokens := int64(set.Chunk), h.Tally.Tokens
	switch {
	case h.Step > uint64(tokens/chunk) || tokens-int64(h.Step)*chunk > chunk:
		return fmt.Errorf("tally.tokens is %d, expected all tokens of %d chunks of %d tokens "+
			"each, and at most one chunk more", tokens, h.Step, chunk)
	case !(h.Tally.Bits >= 0):
		return fmt.Errorf("tally.bits is %v, expected 0 or more", h.Tally.Bits)
	case !(h.BaselineBits >= 0) || !set.Baseline && h.BaselineBits != 0:
		return fmt.Errorf("baseline_bits is %v, expected 0 or more with a baseline, and 0 without",
			h.BaselineBits)
	case h.Last < 0 || int(h.Last) >= m.Tokenizer.Vocab():
		return fmt.Errorf("the field \"last\" is token %d, expected 0 to %d", h.Last,
			m.Tokenizer.Vocab()-1)
	case h.Step == 0 && h.Last != m.Tokenizer.Start():
		return fmt.Errorf("the field \"last\" is token %d before the first chunk, expected token "+
			"%d", h.Last,
			m.Tokenizer.Start())
	}
	if most := h.mostWritten(m, set); h.Written < 0 || h.Written > most {
		return fmt.Errorf("the field \"written\" is %d, expected 0 to %d", h.Written, most)
	}
	return nil
}

// mostWritten returns the maximum number of elements that an update can write, or 0 before the
// first chunk is full.
func (h *header) mostWritten(m *model.Model, set Settings) int {
	switch {
	case h.Step == 0:
		return 0
	case set.Method == SparseMeta:
		return len(set.Adapt.Gammas) * m.ArenaSize()
	case set.Method == DynamicSGD || set.Method == DynamicRMS:
		return m.LM.Layout.Size
	}
	return 0
}

func (s *Stream) reserve() {
	whole := int64(s.Step) * int64(s.Settings.Chunk)
	s.Pending = s.Pending[:s.Tally.Tokens-whole]
	if s.slopes != nil {
		s.slopes = s.slopes[:slopesOfByte*len(s.Pending)]
	}
	s.Memory.Len = int(min(int64(s.model.LM.Config.MemLen), whole))
	if s.StaticMemory != nil {
		s.StaticMemory.Len = s.Memory.Len
	}
	if s.Cache != nil {
		s.Cache.Len = int(min(int64(s.Settings.Cache.Size), whole))
	}
}

// reserveStatic allocates all layers of the static model's memory if the snapshot stores all
// layers. Only snapshots of early versions store the layers that equal the adaptive model's.
func (s *Stream) reserveStatic(f *weights.Stored) {
	if s.StaticMemory == nil || s.StaticMemory.Layers[0] != nil {
		return
	}
	if _, whole := f.Tensor(prefixStatic + "0"); whole {
		s.StaticMemory = txl.NewMemory(s.model.LM.Config, 1)
	}
}

// shareStatic drops the layers of the static model's memory that equal the adaptive model's. It
// returns an error if layers that do not depend on adaptation differ.
func (s *Stream) shareStatic() error {
	alike := s.Settings.layersAlike(s.model)
	if s.StaticMemory == nil || alike == 0 || s.StaticMemory.Layers[0] == nil {
		return nil
	}
	n := s.Memory.Len * s.model.LM.Config.DModel
	for l, rows := range s.StaticMemory.Layers[:alike] {
		if !slices.Equal(rows[:n], s.Memory.Layers[l][:n]) {
			return fmt.Errorf("tensor %q differs from tensor %q, expected equal tensors: no "+
				"adapted weight affects their values",
				prefixStatic+strconv.Itoa(l), prefixMemory+strconv.Itoa(l))
		}
	}
	s.StaticMemory = s.copyStatic()
	return nil
}

func (s *Stream) reserveHeld(f *weights.Stored) {
	if _, ok := f.Tensor(tensorHeld); !ok || !LearnsByLine(s.Settings.Method) {
		return
	}
	s.holdLines()
	if t, ok := f.Tensor(tensorNext); ok && s.Cache != nil && len(t.Shape) == 1 {
		s.Cache.Len = min(t.Shape[0], len(s.Cache.Next))
	}
	if _, ok := f.Tensor(tensorCarried); ok {
		// a placeholder; with it, the function parts includes the gradient
		s.held.line[lineCarries] = carriesOpen
	}
}

func (p *part) read(f *weights.Stored, vocab int) (err error) {
	t, ok := f.Tensor(p.name)
	want := p.tensorType()
	if !ok {
		return fmt.Errorf("tensor %q is missing, expected it with type and shape "+
			"%s%v", p.name, want, p.shape)
	}
	if t.DType != want || !slices.Equal(t.Shape, p.shape) {
		return fmt.Errorf("tensor %q has type and shape %s%v, expected %s%v", p.name, t.DType,
			t.Shape, want, p.shape)
	}
	size := int64(want.Size())
	if t.Bytes != size*int64(t.Elements()) {
		return fmt.Errorf("tensor %q has %d bytes, expected %d", p.name, t.Bytes,
			want.Size()*t.Elements())
	}
	in, element := bufio.NewReaderSize(t.Reader(), readBufferBytes), [4]byte{}
	for i := range t.Bytes / size {
		if _, err := io.ReadFull(in, element[:size]); err != nil {
			return err
		}
		p.setElement(i, binary.LittleEndian.Uint32(element[:]))
	}
	most := p.most
	if most == 0 {
		most = int32(vocab) - 1
	}
	for i, id := range p.tokens {
		if id < 0 || id > most {
			return fmt.Errorf("tensor %q, element %d is token %d, expected 0 to %d", p.name, i, id,
				most)
		}
	}
	return p.finite()
}

// surplus returns an error that names an unexpected tensor of the file.
func surplus(f *weights.Stored, parts []part) error {
	for _, t := range f.Tensors {
		known := func(p part) bool { return p.name == t.Name }
		if t.Name != tensorLines && t.Name != tensorRecords && t.Name != tensorWord &&
			t.Name != tensorCompanion && t.Name != tensorBefore &&
			!slices.ContainsFunc(parts, known) {
			return fmt.Errorf("tensor %q does not belong to a stream with these settings", t.Name)
		}
	}
	return fmt.Errorf("found %d tensors, expected %d", len(f.Tensors), len(parts))
}

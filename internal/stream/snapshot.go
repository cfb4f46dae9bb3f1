package stream

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// keySnapshot is the metadata that a snapshot's header stands in, snapshotVersion the
// version of the whole file (docs/formats.md).
const (
	keySnapshot     = "lmserve.snapshot"
	snapshotVersion = 1
)

// header is a snapshot without its tensors.
type header struct {
	Version      int      `json:"version"`
	Model        string   `json:"model"`
	Numerics     string   `json:"numerics"`
	Settings     Settings `json:"settings"`
	Step         uint64   `json:"step"`
	Written      int      `json:"written"`
	Last         int32    `json:"last"`
	Tally        tally    `json:"tally"`
	BaselineBits float64  `json:"baseline_bits"`
}

// tally is a tokenizer.Tally with names for a file.
type tally struct {
	Bytes  int64   `json:"bytes"`
	Chars  int64   `json:"chars"`
	Tokens int64   `json:"tokens"`
	Bits   float64 `json:"bits"`
}

// Snapshot is the stream as a file, from which Restore makes one that goes on to the
// same bits. The file shares nothing with the stream. An error says which number is not
// finite: such a stream Restore would refuse.
func (s *Stream) Snapshot() (*weights.File, error) {
	text, err := json.Marshal(header{
		Version: snapshotVersion, Model: s.model.Hash(), Numerics: kernel.Numerics(), Settings: s.Settings,
		Step: s.Step, Written: s.Written, Last: s.Last, Tally: tally(s.Tally), BaselineBits: s.Baseline.Bits,
	})
	if err != nil {
		return nil, fmt.Errorf("stream: snapshot: %w", err)
	}
	f := &weights.File{Metadata: map[string]string{keySnapshot: string(text)}}
	for _, p := range s.parts() {
		if err := p.finite(); err != nil {
			return nil, fmt.Errorf("stream: snapshot: %w", err)
		}
		f.Tensors = append(f.Tensors, p.tensor())
	}
	return f, nil
}

// part is an array of the state and the tensor it is stored as: floats, or tokens.
type part struct {
	name   string
	shape  []int
	floats []float32
	tokens []int32
	any    bool // floats that need not be finite
}

// parts are all arrays of the state, in the order of the file.
func (s *Stream) parts() []part {
	all := []part{{name: "pending", shape: []int{len(s.Pending)}, tokens: s.Pending}}
	all = s.appendMemory(all, "memory.", s.Memory)
	all = s.appendMemory(all, "baseline.memory.", s.BaselineMemory)
	layout := s.model.LM.Layout
	switch {
	case s.Fast != nil:
		for bank := range s.Fast.M {
			prefix := "fast." + strconv.Itoa(bank)
			for i, b := range s.model.Learner.Branches {
				shape := layout.Tensors[layout.Index(b.Name)].Shape
				all = append(all,
					part{name: prefix + ".I." + b.Name, shape: shape, floats: s.Fast.Branch(s.Fast.I[bank], i), any: true},
					part{name: prefix + ".M." + b.Name, shape: shape, floats: s.Fast.Branch(s.Fast.M[bank], i)})
			}
		}
	case s.Dynamic != nil:
		for i, m := range layout.Slices(s.Dynamic.M) {
			all = append(all, part{name: "dynamic.M." + layout.Tensors[i].Name, shape: layout.Tensors[i].Shape, floats: m})
		}
	case s.Cache != nil:
		n, width := s.Cache.Len, s.model.LM.Config.DModel
		all = append(all,
			part{name: "cache.keys", shape: []int{n, width}, floats: s.Cache.Keys[:n*width]},
			part{name: "cache.next", shape: []int{n}, tokens: s.Cache.Next[:n]})
	}
	return all
}

// appendMemory appends the rows of a memory that are in use; mem may be nil.
func (s *Stream) appendMemory(all []part, prefix string, mem *txl.Memory) []part {
	if mem == nil {
		return all
	}
	width := s.model.LM.Config.DModel
	for l, rows := range mem.Layers {
		all = append(all, part{name: prefix + strconv.Itoa(l), shape: []int{mem.Len, width}, floats: rows[:mem.Len*width]})
	}
	return all
}

func (p *part) tensor() weights.Tensor {
	if p.tokens != nil {
		return weights.I32Tensor(p.name, p.shape, p.tokens)
	}
	return weights.F32Tensor(p.name, p.shape, p.floats)
}

func (p *part) tensorType() weights.DType {
	if p.tokens != nil {
		return weights.I32
	}
	return weights.F32
}

// finite says which number is not, where all have to be.
func (p *part) finite() error {
	if p.any {
		return nil
	}
	for i, v := range p.floats {
		if v-v != 0 { // NaN or infinite
			return fmt.Errorf("tensor %q, element %d is %v, expected a finite number", p.name, i, v)
		}
	}
	return nil
}

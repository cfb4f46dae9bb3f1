// Package bench measures the limits of a computer: multiply-adds per second and bytes per second.
// It compares parts of lmserve with these limits: kernels at the model's shapes, a chunk, a
// training step, a token of a completion, and parallel sessions.
//
// Other programs may use the computer, and its clock rates change. Therefore bench measures the
// limits before and after every row, and compares each row with the limits around it. Times are
// medians.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/txl"
)

// Names of the sections of a report, in order.
const (
	Limits   = "limits"
	Kernels  = "kernels"
	Chunks   = "chunks"
	Train    = "train"
	Decode   = "decode"
	Sessions = "sessions"
)

// Sections returns all sections of a report.
func Sections() []string { return []string{Limits, Kernels, Chunks, Train, Decode, Sessions} }

// Options say what to measure.
type Options struct {
	Chunk   int // tokens of a chunk; 0 means the model's chunk length
	Threads int // number of threads for a second measurement besides one thread; 0: none
	// Seconds is the time for the samples of each row; 0 means SecondsDefault. Each row has at
	// least three samples.
	Seconds float64
	Only    []string // sections to measure; nil means all
	// Progress, if not nil, is called before each measurement. It receives the measurement's name,
	// the number of finished measurements, and their total number.
	Progress func(what string, done, total int)
}

const (
	SecondsDefault = 0.2
	secondsMax     = 3600
)

// Validate returns an error for the first option that is out of range.
func (o Options) Validate() error {
	switch {
	case o.Chunk < 0 || o.Chunk > stream.MaxChunk:
		return fmt.Errorf("bench: chunk is %d, expected 1 to %d, or 0 for the model's chunk "+
			"size", o.Chunk,
			stream.MaxChunk)
	case o.Threads < 0:
		return fmt.Errorf("bench: threads is %d, expected at least 1", o.Threads)
	case !(o.Seconds >= 0 && o.Seconds <= secondsMax):
		return fmt.Errorf("bench: seconds is %v, expected a number from 0 to %d", o.Seconds,
			secondsMax)
	}
	for _, name := range o.Only {
		if !slices.Contains(Sections(), name) {
			return fmt.Errorf("bench: section %q is not known, expected one or more of %s", name,
				strings.Join(Sections(), ", "))
		}
	}
	return nil
}

func (o *Options) complete(m *model.Model) {
	o.Chunk = cmp.Or(o.Chunk, m.Chunk)
	o.Threads = cmp.Or(o.Threads, 1)
	o.Seconds = cmp.Or(o.Seconds, SecondsDefault)
	if len(o.Only) == 0 {
		o.Only = Sections()
	}
}

// Report holds the results, and describes the machine and the model.
type Report struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"` // processors that Go may use (GOMAXPROCS)
	Go        string `json:"go"`
	Numerics  string `json:"numerics"`
	Peak      string `json:"peak"` // instruction set that gives the measured peak speed
	Model     string `json:"model"`
	Weights   int    `json:"weights"`
	// FastWeights is the number of weights of all branches; 0 for a model without meta-learner.
	FastWeights int `json:"fast_weights"`
	Banks       int `json:"banks"`
	Chunk       int `json:"chunk"` // tokens of a chunk
	// rows of the model's memory, which is full in all measurements
	Memory int `json:"memory"`
	// Bytes is the memory use of the model, its sessions and workers.
	Bytes Bytes `json:"bytes"`
	Rows  []Row `json:"rows"`
}

// Bytes is the memory use of a model, its sessions and workers, in bytes.
type Bytes struct {
	Weights int64 `json:"weights"` // slow weights, in float32
	Session int64 `json:"session"` // a session with the model's default method
	Static  int64 `json:"static"`  // a session of the method static
	Worker  int64 `json:"worker"`  // a worker, which computes one session at a time
}

// bytesOf returns the memory use for chunks of `chunk` tokens.
func bytesOf(m *model.Model, chunk int) Bytes {
	set, static := stream.Defaults(m), stream.DefaultsFor(m, stream.Static)
	set.Chunk, static.Chunk = chunk, chunk
	return Bytes{
		Weights: 4 * int64(m.LM.Layout.Size),
		Session: stream.StateBytes(m, set),
		Static:  stream.StateBytes(m, static),
		Worker:  txl.SegmentBytes(m.LM.Config, 1, chunk) + 3*4*int64(m.ArenaSize()),
	}
}

// Row is one measurement. Achieved and Limit are speeds in Unit.
type Row struct {
	Section string `json:"section"`
	What    string `json:"what"`
	Shape   string `json:"shape,omitempty"`
	Threads int    `json:"threads"`
	// Seconds is a median. In the section of limits it is the time of 10^9 operations or bytes. In
	// the section of sessions it is the time between two finished chunks of any sessions.
	Seconds  float64 `json:"seconds"`
	Achieved float64 `json:"achieved"`
	Limit    float64 `json:"limit"`
	Unit     string  `json:"unit"`
	OfLimit  float64 `json:"of_limit"` // Achieved / Limit
	Note     string  `json:"note,omitempty"`
}

type bench struct {
	Options
	ctx    context.Context
	model  *model.Model
	x      *kernel.Exec
	report Report
	language

	memory  memory
	pieces  int
	factors []factors
	// repetitions in one piece of a sample of the peak speed; 0: not yet known
	rounds int
	seen   map[int][]rates // limits measured so far, by number of threads

	begun, planned int
}

func (b *bench) about(m *model.Model, o Options) Report {
	r := Report{
		Processor: cpuid.CPU.BrandName, Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		Numerics: m.Arithmetic.Numerics(), Peak: b.x.PeakName(),
		Model: m.Name, Weights: m.LM.Layout.Size, FastWeights: m.ArenaSize(), Chunk: o.Chunk,
		Memory: m.LM.Config.MemLen,
		Bytes:  bytesOf(m, o.Chunk),
	}
	if m.Learner != nil {
		r.Banks = len(m.Learner.Settings.Gammas)
	}
	if r.Processor == "" {
		r.Processor = runtime.GOARCH
	}
	return r
}

func (b *bench) threadCounts() []int {
	if b.Threads == 1 {
		return []int{1}
	}
	return []int{1, b.Threads}
}

func (b *bench) segment() segment { return b.segmentOf(1, b.Chunk) }

func (b *bench) segmentOf(batch, rows int) segment {
	c := b.model.LM.Config
	return segment{
		Config: c, batch: batch, rows: rows, memory: c.MemLen,
		shares: b.shares(b.model.LM.Layout.Clusters()),
	}
}

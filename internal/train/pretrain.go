package train

import (
	"fmt"

	"github.com/lmserve/lmserve/internal/kernel"
	"github.com/lmserve/lmserve/sparsemeta"
	"github.com/lmserve/lmserve/txl"
)

// What the seed of a run is used for: each has a generator of its own.
const (
	useWeights = iota + 1
	useOrder
	useDropout
	usePieces
	useReset
	useMasks
	useLearner
	useValidation
	useKeepBack
	useJoint
)

// Adam's constants for the slow weights.
const (
	slowBeta1 = 0.9
	slowBeta2 = 0.999
	slowEps   = 1e-8
)

// optimizer moves all slow weights at once.
type optimizer interface {
	// Step moves the weights w against the gradient g and returns the gradient's norm, moving nothing if that is not finite.
	Step(x *kernel.Exec, w, g []float32, rate float64) (norm float64)
	moments() []array // all it remembers but the number of steps
	setSteps(n int)
}

func newOptimizer(l *txl.Layout, o SlowOptions) optimizer {
	if o.Optimizer == OptimizerMuon {
		return NewMuon(l, o.Clip)
	}
	return NewAdam(l.Size, slowBeta1, slowBeta2, slowEps, o.Clip)
}

// slow is the optimiser of the slow weights and what it works on.
type slow struct {
	options  SlowOptions
	schedule Schedule
	seed     uint64
	lm       *txl.Model
	opt      optimizer
	grads    []float32 // of all slow weights, in the layout of lm.W
	views    txl.Grads // of grads
}

func newSlow(lm *txl.Model, o SlowOptions, steps int, seed uint64) *slow {
	s := &slow{options: o, lm: lm, seed: kernel.Key(seed, useDropout)}
	s.schedule = Schedule{Kind: o.Schedule, Peak: o.Rate, Final: o.Final, Warmup: max(0, o.Warmup), Steps: steps}
	s.opt = newOptimizer(lm.Layout, o)
	s.grads = make([]float32, len(lm.W))
	s.views = lm.Layout.Slices(s.grads)
	return s
}

// dropout is that of the i'th segment of step t.
func (s *slow) dropout(t, i int) txl.Dropout {
	return txl.Dropout{
		Hidden: float32(s.options.Dropout), Attention: float32(s.options.AttentionDropout),
		Key: kernel.Key(s.seed, uint64(t), uint64(i)),
	}
}

// step moves the slow weights against grads.
func (s *slow) step(x *kernel.Exec, t int) (rate, norm float64) {
	rate = s.schedule.Rate(t)
	return rate, s.opt.Step(x, s.lm.W, s.grads, rate)
}

func (s *slow) save(to *snapshot) {
	putAll(to, s.opt.moments())
}

func (s *slow) load(from *snapshot, steps int) {
	getAll(from, s.opt.moments())
	s.opt.setSteps(steps)
}

// segment is one segment of text of a batch, with its working space and the memory before it.
type segment struct {
	seg     *txl.Segment
	inputs  []int32 // [T,B]
	targets []int32 // [T,B]
	nll     []float32
}

func newSegment(c txl.Config, batch, length int) segment {
	n := batch * length
	return segment{txl.NewSegment(c, batch, length), make([]int32, n), make([]int32, n), make([]float32, n)}
}

// forward runs the segment's inputs at W + M and returns the mean loss in nats.
func (s *segment) forward(x *kernel.Exec, lm *txl.Model, fast txl.Fast, mem *txl.Memory) float64 {
	s.seg.Begin(x, lm, fast, mem)
	return s.score(x)
}

// score is forward for a segment that has begun.
func (s *segment) score(x *kernel.Exec) float64 {
	s.seg.Extend(x, s.inputs)
	s.seg.NLL(0, s.targets, s.nll)
	sum := 0.0
	for _, v := range s.nll {
		sum += float64(v)
	}
	return sum / float64(len(s.nll))
}

// outcome is what one step of a phase did.
type outcome struct {
	loss   float64 // nats a token, mean
	tokens int     // scored
	rate   float64 // learning rate: of the slow weights in pretraining, of the meta-learners in the other phases
	norm   float64 // of the gradient, before clipping; see Metric.GradNorm

	slowRate float64 // learning rate of the slow weights in a joint phase
}

// pretrain is the static phase: the slow weights alone, on a batch of streams.
type pretrain struct {
	options PretrainOptions
	x       *kernel.Exec
	lm      *txl.Model
	slow    *slow
	reader  *batchReader
	text    segment
	mem     *txl.Memory
	bytes   int // of the text
	steps   int // made
}

// newPretrain starts the phase. The options' Segment is set.
func newPretrain(x *kernel.Exec, lm *txl.Model, c *Corpus, first int32, o PretrainOptions, seed uint64) (*pretrain, error) {
	reader, err := newBatchReader(c, o.Batch, o.Segment, first, o.Balance, kernel.Key(seed, useOrder))
	if err != nil {
		return nil, err
	}
	return &pretrain{
		options: o, x: x, lm: lm, slow: newSlow(lm, o.SlowOptions, o.Steps, seed), reader: reader,
		text: newSegment(lm.Config, o.Batch, o.Segment), mem: txl.NewMemory(lm.Config, o.Batch), bytes: c.Bytes(),
	}, nil
}

// step makes one optimiser step from the mean loss of the next segment of every stream.
func (p *pretrain) step() (outcome, error) {
	p.reader.Next(p.text.inputs, p.text.targets)
	p.text.seg.SetDropout(p.slow.dropout(p.steps, 0))
	o := outcome{loss: p.text.forward(p.x, p.lm, nil, p.mem), tokens: len(p.text.targets)}
	p.text.seg.Backward(p.x, p.text.targets, p.slow.views)
	p.text.seg.Remember(p.mem)
	o.rate, o.norm = p.slow.step(p.x, p.steps)
	p.steps++
	return o, nil
}

func (p *pretrain) length() int                  { return p.options.Steps }
func (p *pretrain) trained() []array             { return []array{{"slow", p.lm.W}} }
func (p *pretrain) learner() *sparsemeta.Learner { return nil }
func (p *pretrain) frozen() bool                 { return false }
func (p *pretrain) close() error                 { return nil }

func (p *pretrain) describe() string {
	return fmt.Sprintf("%s weights; a step is %d streams of %d tokens, %.3g times through %s bytes in all",
		count(len(p.lm.W)), p.options.Batch, p.options.Segment,
		float64(p.options.Steps*p.options.Batch*p.options.Segment)/float64(p.bytes), count(p.bytes))
}

// pretrainState is the part of the phase's state that is not arrays.
type pretrainState struct {
	Steps  int         `json:"steps"`
	Reader readerState `json:"reader"`
	Memory int         `json:"memory"` // rows
}

func (p *pretrain) save(s *snapshot) {
	s.putJSON(keyPhase, pretrainState{p.steps, p.reader.state, p.mem.Len})
	putAll(s, p.trained())
	p.slow.save(s)
	saveMemory(s, p.mem, p.options.Batch*p.lm.Config.DModel)
}

func (p *pretrain) load(s *snapshot) error {
	var st pretrainState
	s.getJSON(keyPhase, &st)
	getAll(s, p.trained())
	p.slow.load(s, st.Steps)
	loadMemory(s, p.mem, st.Memory, p.lm.Config, p.options.Batch)
	if s.err != nil {
		return s.err
	}
	p.steps = st.Steps
	return p.reader.restore(st.Reader)
}

func putAll(s *snapshot, arrays []array) {
	for _, a := range arrays {
		s.put(a.name, a.data)
	}
}

func getAll(s *snapshot, arrays []array) {
	for _, a := range arrays {
		s.get(a.name, a.data)
	}
}

// saveMemory stores the rows in use of every layer; width is a row's number of elements.
func saveMemory(s *snapshot, mem *txl.Memory, width int) {
	for l, rows := range mem.Layers {
		s.put(memoryName(l), rows[:mem.Len*width])
	}
}

func loadMemory(s *snapshot, mem *txl.Memory, rows int, c txl.Config, batch int) {
	if rows < 0 || rows > c.MemLen {
		s.fail("memory has %d rows, expected 0 to %d", rows, c.MemLen)
		return
	}
	mem.Len = rows
	for l := range mem.Layers {
		s.get(memoryName(l), mem.Layers[l][:rows*batch*c.DModel])
	}
}

func memoryName(layer int) string { return fmt.Sprintf("memory.%d", layer) }

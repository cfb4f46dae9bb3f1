package sparsemeta

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
)

// DynamicSettings are the parameters of dynamic evaluation.
type DynamicSettings struct {
	Rate float32 `json:"rate"` // learning rate, at least 0
	// Decay is the fraction of M that an update removes, 0 to 1. With statistics, the fraction is
	// multiplied by r/R: r is the RMS of the weight's gradient, and R is the mean RMS of all
	// weights.
	Decay float32 `json:"decay"`
	// Floor keeps weights with usually small gradients from diverging. With statistics, each
	// weight's RMS is increased by Floor times the mean RMS of the branch. Floor is at least 0, and
	// unused without statistics.
	Floor float32 `json:"floor"`
}

// SGDSettings and RMSSettings return settings that work well with the embedded model. At much
// higher rates, the model diverged on the hardest text.
func SGDSettings() DynamicSettings { return DynamicSettings{Rate: 0.1, Decay: 0.003} }
func RMSSettings() DynamicSettings { return DynamicSettings{Rate: 5e-4, Decay: 0.004, Floor: 0.3} }

// Validate returns a *SettingError for the first field that is out of range.
func (s DynamicSettings) Validate() error {
	bad := func(field string, found float32, want string) error {
		return &SettingError{Field: field, Found: fmt.Sprint(found), Want: want}
	}
	switch {
	case !(s.Rate >= 0 && s.Rate <= math.MaxFloat32):
		return bad("rate", s.Rate, "a finite number, 0 or more")
	case !(s.Decay >= 0 && s.Decay <= 1):
		return bad("decay", s.Decay, "a number from 0 to 1")
	case !(s.Floor >= 0 && s.Floor <= math.MaxFloat32):
		return bad("floor", s.Floor, "a finite number, 0 or more")
	}
	return nil
}

// Dynamic is the state of dynamic evaluation (Krause et al., Dynamic Evaluation of Neural Sequence
// Models, 2018, and Dynamic Evaluation of Transformer Language Models, 2019). The method is
// gradient descent on the text, with decay towards the initial weights. Every chunk changes the
// fast weights M:
//
//	M <- (1 - decay) M - rate G
//
// With statistics, r is the root mean square of a weight's gradient over training text, and
//
//	M <- (1 - min(1, decay r/R)) M - rate G / (r + floor r̄)
//
// where r̄ is the mean of r over the weight's branch and R the mean over all weights, as in the
// authors' code. Weights that learn faster also decay faster. The authors' denominator has a tiny
// constant instead of the floor, with which the model diverges here.
//
// Every element of M is kept within -4 to 4, and NaN becomes 0. At useful rates neither happens.
// At other rates the scores become bad instead of undefined.
type Dynamic struct {
	M []float32 // the branches' elements, end to end

	set     DynamicSettings
	rms     *Statistics // nil without statistics
	paces   []pace      // one for each branch; nil without statistics
	offsets []int
	spans   []span
	job     dynamicJob
}

// dynamicMost is the largest absolute value of an element of M. Trained weights are far smaller.
const dynamicMost = 4

// pace holds the factors of an update for each code of the statistics: M <- keep M - step G.
type pace struct{ keep, step [codeMost + 1]float32 }

// NewDynamic returns the state before the first chunk, with M zero. With rms nil, Update uses one
// rate and one decay for all weights. Otherwise rms must have the given branches.
func NewDynamic(branches []Branch, set DynamicSettings, rms *Statistics) *Dynamic {
	d := &Dynamic{set: set, rms: rms}
	d.offsets, d.spans = cut(branches)
	d.M = make([]float32, d.offsets[len(branches)])
	if rms == nil {
		return d
	}
	if len(rms.Codes) != len(d.M) || len(rms.Scales) != len(branches) {
		panic(fmt.Sprintf("sparsemeta: NewDynamic: found statistics of %d weights in %d "+
			"branches, want %d in %d",
			len(rms.Codes), len(rms.Scales), len(d.M), len(branches)))
	}
	sums, total := rms.sums(), 0.
	for _, sum := range sums {
		total += sum
	}
	d.paces = make([]pace, len(branches))
	for i, b := range branches {
		d.paces[i].fill(rms.values(i), set, sums[i]/float64(b.Size), total/float64(len(d.M)))
	}
	return d
}

// fill computes the factors of a branch. If the branch never had a gradient, the factors leave its
// weights unchanged.
func (p *pace) fill(values [codeMost + 1]float64, set DynamicSettings, branchMean, mean float64) {
	for c, r := range values {
		if r > 0 {
			p.keep[c] = float32(1 - min(1, float64(set.Decay)*r/mean))
		} else {
			p.keep[c] = 1
		}
		if below := r + float64(float64(set.Floor)*branchMean); below > 0 {
			p.step[c] = float32(float64(set.Rate) / below)
		}
	}
}

// Update applies the gradient of a chunk. g is an arena with the gradient of the chunk's mean loss
// with respect to W + M. Update allocates nothing. Its result does not depend on the number of
// threads.
func (d *Dynamic) Update(x *Exec, g []float32) {
	if len(g) != len(d.M) {
		panic(fmt.Sprintf("sparsemeta: Dynamic.Update: found %d gradients, want %d",
			len(g), len(d.M)))
	}
	d.job = dynamicJob{d, g}
	x.Parallel(len(d.spans), &d.job)
	d.job = dynamicJob{}
}

type dynamicJob struct {
	d *Dynamic
	g []float32
}

// Do updates span i.
func (j *dynamicJob) Do(w *Exec, i int) {
	d, sp := j.d, j.d.spans[i]
	lo, hi := d.offsets[sp.branch]+sp.lo, d.offsets[sp.branch]+sp.hi
	m, g := d.M[lo:hi], j.g[lo:hi]
	if d.rms == nil {
		w.Scale(m, 1-d.set.Decay)
		w.Axpy(m, -d.set.Rate, g)
	} else {
		d.paces[sp.branch].move(m, g, d.rms.Codes[lo:hi])
	}
	// If the norm is at most dynamicMost, so is each element.
	if !(w.Dot(m, m) <= dynamicMost*dynamicMost) {
		hold(m)
	}
}

func (p *pace) move(m, g []float32, codes []uint8) {
	m, g = m[:len(codes)], g[:len(codes)]
	for i, c := range codes {
		m[i] = float32(p.keep[c]*m[i]) - float32(p.step[c]*g[i])
	}
}

func hold(m []float32) {
	for i, v := range m {
		if v != v {
			v = 0
		}
		m[i] = min(max(v, -dynamicMost), dynamicMost)
	}
}

// Reset sets M to zero.
func (d *Dynamic) Reset() { clear(d.M) }

// RMS returns the root mean square of the fast weights.
func (d *Dynamic) RMS(v Vectors) float64 {
	var sum float64
	for lo := 0; lo < len(d.M); lo += sumBlock {
		block := d.M[lo:min(lo+sumBlock, len(d.M))]
		sum += float64(v.Dot(block, block))
	}
	return math.Sqrt(sum / float64(len(d.M)))
}

// Bytes returns the state's memory in bytes, without the shared statistics.
func (d *Dynamic) Bytes() int64 { return DynamicBytes(len(d.M), len(d.paces)) }

// DynamicBytes returns the memory in bytes of a Dynamic with the given number of elements. paced is
// the number of branches with statistics, or 0 without statistics.
func DynamicBytes(elements, paced int) int64 {
	return 4 * (int64(elements) + 2*(codeMost+1)*int64(paced))
}

// Hash returns the SHA-256 of the state's bits, in hexadecimal. Equal states have equal hashes.
func (d *Dynamic) Hash() string {
	h := sha256.New()
	hashFloats(h, d.M)
	return hex.EncodeToString(h.Sum(nil))
}

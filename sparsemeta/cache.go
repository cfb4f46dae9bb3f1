package sparsemeta

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
)

// CacheSettings are the parameters of a continuous cache.
type CacheSettings struct {
	Size int `json:"size"` // number of remembered positions, at least 1
	// weight of the similarity of states; with 0 all positions count equally
	Theta  float32 `json:"theta"`
	Lambda float32 `json:"lambda"` // the cache's share of the probability, from 0 to below 1
}

// DefaultCacheSettings returns settings that work well with the embedded model.
func DefaultCacheSettings() CacheSettings {
	return CacheSettings{Size: 2000, Theta: 4,
		Lambda: 0.4}
}

// Limits of a cache. The size is limited because each token costs a dot product with every
// position. Theta is limited so that no score overflows.
const (
	CacheSizeMax  = 1 << 16
	CacheThetaMax = 1000
)

// Validate returns a *SettingError for the first field that is out of range.
func (s CacheSettings) Validate() error {
	bad := func(field string, found any, want string) error {
		return &SettingError{Field: field, Found: fmt.Sprint(found), Want: want}
	}
	switch {
	case s.Size < 1 || s.Size > CacheSizeMax:
		return bad("size", s.Size, fmt.Sprintf("1 to %d", CacheSizeMax))
	case !(s.Theta >= 0 && s.Theta <= CacheThetaMax):
		return bad("theta", s.Theta, fmt.Sprintf("a number from 0 to %d", CacheThetaMax))
	case !(s.Lambda >= 0 && s.Lambda < 1):
		return bad("lambda", s.Lambda, "a number from 0 to less than 1")
	}
	return nil
}

// Cache is a continuous cache (Grave, Joulin and Usunier, Improving Neural Language Models with a
// Continuous Cache, 2016). For each of the last Size positions it stores the hidden state h_i and
// the following symbol x_(i+1). Its prediction of the symbol after position t is
//
//	p = (1 - lambda) p_model + lambda p_cache
//	p_cache(w) ∝ sum over i with x_(i+1) = w of exp(theta h_t·h_i / sqrt(D))
//
// over the last Size positions i before t. The cache has some of these positions; the caller passes
// those of the present chunk. D is the width of the states. The division by sqrt(D), as in
// attention, keeps theta of order 1; the paper does not have it. At the first position, p is
// p_model.
//
// The result for a row does not depend on which other rows are computed in the same call.
type Cache struct {
	Keys []float32 // [Size,D] or more rows; the first Len rows are in use, oldest first
	Next []int32   // [Size] or more; the symbol after each position
	Len  int

	// Warm reduces the cache's share while it has few positions, which predict poorly. With n
	// positions the share is lambda n/(n+Warm), half of lambda at n = Warm. With Warm 0 the share
	// is always lambda.
	Warm int

	set   CacheSettings
	width int // D in the equation of Cache
	job   cacheJob
	sums  []float64 // p_cache of each symbol, computed by MixAll
}

// NewCache returns a cache without positions, for hidden states of the given width.
func NewCache(set CacheSettings, width int) *Cache {
	return &Cache{set: set, width: width, Keys: make([]float32, set.Size*width),
		Next: make([]int32, set.Size)}
}

// Reserve allocates memory for `more` positions beyond Size, so that Open can add them.
func (c *Cache) Reserve(more int) {
	keys, next := make([]float32, (c.set.Size+more)*c.width), make([]int32, c.set.Size+more)
	copy(keys, c.Keys[:c.Len*c.width])
	copy(next, c.Next[:c.Len])
	c.Keys, c.Next = keys, next
}

// Open adds positions like Append, but in the memory from Reserve. Open drops no older positions;
// Close does. Before Close, the caller can undo Open by restoring Len.
func (c *Cache) Open(hidden []float32, next []int32) {
	c.check("Open", hidden, len(next))
	copy(c.Keys[c.Len*c.width:], hidden)
	copy(c.Next[c.Len:], next)
	c.Len += len(next)
}

// Close makes the positions of Open permanent. If the cache then has more than Size positions,
// Close drops the oldest.
func (c *Cache) Close() { c.forget(max(0, c.Len-c.set.Size)) }

func (c *Cache) forget(drop int) {
	if drop == 0 {
		return
	}
	copy(c.Keys, c.Keys[drop*c.width:c.Len*c.width])
	copy(c.Next, c.Next[drop:c.Len])
	c.Len -= drop
}

// Append adds positions: their hidden states [n,D] and the symbols after them [n].
func (c *Cache) Append(hidden []float32, next []int32) {
	c.check("Append", hidden, len(next))
	D, size := c.width, c.set.Size
	if skip := len(next) - size; skip > 0 {
		hidden, next = hidden[skip*D:], next[skip:]
	}
	c.forget(max(0, c.Len+len(next)-size))
	copy(c.Keys[c.Len*D:], hidden)
	copy(c.Next[c.Len:], next)
	c.Len += len(next)
}

// Copy returns a cache with the same positions and capacity.
func (c *Cache) Copy() *Cache {
	n := &Cache{set: c.set, width: c.width, Len: c.Len, Warm: c.Warm}
	n.Keys, n.Next = make([]float32, len(c.Keys)), make([]int32, len(c.Next))
	copy(n.Keys, c.Keys[:c.Len*c.width])
	copy(n.Next, c.Next[:c.Len])
	return n
}

// Mix replaces the model's negative log-likelihoods (nats) by those of the mixture. hidden [n,D]
// has the states of the n positions that follow the cache. next [n] has the symbol after each of
// these positions. nll[k] belongs to next[n-len(nll)+k].
func (c *Cache) Mix(x *Exec, hidden []float32, next []int32, nll []float32) {
	c.check("Mix", hidden, len(next))
	if len(nll) > len(next) {
		panic(fmt.Sprintf("sparsemeta: Cache.Mix: found %d likelihoods, expected at most %d",
			len(nll), len(next)))
	}
	c.run(x, cacheJob{hidden: hidden, next: next, from: len(next) - len(nll), nll: nll})
}

// MixAll replaces the model's distribution after the last row of hidden [n,D] by the distribution
// of the mixture. logProbs has the log-probability (nats) of each symbol, before and after the
// call. next [n-1] has the symbols after the earlier rows.
func (c *Cache) MixAll(x *Exec, hidden []float32, next []int32, logProbs []float32) {
	c.check("MixAll", hidden, len(next)+1)
	if len(c.sums) != len(logProbs) {
		c.sums = make([]float64, len(logProbs))
	}
	c.run(x, cacheJob{hidden: hidden, next: next, from: len(next), all: logProbs})
}

func (c *Cache) check(who string, hidden []float32, rows int) {
	if len(hidden) != rows*c.width {
		panic(fmt.Sprintf("sparsemeta: Cache.%s: found %d hidden numbers, want %d rows of %d", who,
			len(hidden), rows, c.width))
	}
}

// cacheRows is the number of positions in one parallel task.
const cacheRows = 16

func (c *Cache) run(x *Exec, j cacheJob) {
	rows := len(j.hidden) / c.width
	// Rounding up to a power of two gives the buffer the same size for most numbers of rows.
	x.Reserve(cacheRows * (len(c.Next) + 1<<bits.Len(uint(rows))))
	c.job, c.job.c = j, c
	x.Parallel((rows-j.from+cacheRows-1)/cacheRows, &c.job)
	c.job = cacheJob{}
}

type cacheJob struct {
	c      *Cache
	hidden []float32 // [n,D]
	next   []int32
	from   int // the first row that gets a result
	nll    []float32
	all    []float32
}

// Do computes block i of the rows. First it computes h_t·h_i for all positions before the block's
// last row. Then it computes each row's result from the positions in the row's window.
func (j *cacheJob) Do(w *Exec, i int) {
	c, D := j.c, j.c.width
	lo := j.from + i*cacheRows
	hi := min(lo+cacheRows, len(j.hidden)/D)
	keys := c.Len + hi - 1 // The block's last row uses all earlier positions.
	scores := kernel.Mat(w.Room()[:(hi-lo)*keys], hi-lo, keys)
	rows := kernel.Mat(j.hidden, len(j.hidden)/D, D)
	w.MulNT(scores.ColRange(0, c.Len), rows.RowRange(lo, hi), kernel.Mat(c.Keys[:c.Len*D], c.Len,
		D), false)
	w.MulNT(scores.ColRange(c.Len, keys), rows.RowRange(lo, hi), rows.RowRange(0, hi-1), false)
	for r := lo; r < hi; r++ {
		end := c.Len + r
		j.row(w, r, max(0, end-c.set.Size), scores.Data[(r-lo)*keys:][:end])
	}
}

// row computes the result of row r. scores has the scores of all positions before the row. The row
// uses the scores from index begin on.
func (j *cacheJob) row(x *Exec, r, begin int, scores []float32) {
	window := scores[begin:]
	if len(window) == 0 {
		return
	}
	c, lambda := j.c, j.c.share(len(window))
	x.Softmax(window, c.set.Theta/float32(math.Sqrt(float64(c.width))))
	cached := c.Next[min(begin, c.Len):c.Len] // the window's symbols that are in the cache
	chunk := j.next[max(0, begin-c.Len):r]    // the window's symbols that are in the chunk
	if j.all == nil {
		w, k := j.next[r], r-j.from
		p := sumOf(w, cached, window, 0)
		p = sumOf(w, chunk, window[len(cached):], p)
		j.nll[k] = mix(lambda, j.nll[k], p)
		return
	}
	clear(c.sums)
	sumAll(c.sums, cached, window)
	sumAll(c.sums, chunk, window[len(cached):])
	for w, p := range c.sums {
		j.all[w] = -mix(lambda, -j.all[w], p)
	}
}

// sumOf returns sum plus the weights of the positions with symbol w.
func sumOf(w int32, symbols []int32, weights []float32, sum float64) float64 {
	for i, v := range symbols {
		if v == w {
			sum += float64(weights[i])
		}
	}
	return sum
}

// sumAll adds the weight of each position to the sum of the position's symbol.
func sumAll(sums []float64, symbols []int32, weights []float32) {
	for i, v := range symbols {
		sums[v] += float64(weights[i])
	}
}

func (c *Cache) share(positions int) float64 {
	return float64(c.set.Lambda) * (float64(positions) / float64(positions+c.Warm))
}

// mix returns -ln((1 - lambda) e^-nll + lambda p). If rounding makes the result negative, mix
// returns 0.
func mix(lambda float64, nll float32, p float64) float32 {
	a := math.Log1p(-lambda) - float64(nll)
	b := math.Log(lambda * p)
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return max(0, float32(-a))
	}
	return max(0, float32(-(a + math.Log1p(math.Exp(b-a)))))
}

// Bytes returns the cache's memory in bytes, without the memory that Reserve adds.
func (c *Cache) Bytes() int64 { return 4 * int64(c.set.Size) * int64(c.width+1) }

// Hash returns the SHA-256 of the positions' bits, in hexadecimal. Equal caches have equal
// hashes.
func (c *Cache) Hash() string {
	h := sha256.New()
	hashFloats(h, c.Keys[:c.Len*c.width])
	for _, id := range c.Next[:c.Len] {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
	}
	return hex.EncodeToString(h.Sum(nil))
}

package lines

import "math"

// crowds rates a line by how rare similar lines are: part E of Rating. The vector of a line counts
// its runs of three bytes, with signs and indexes given by the runs' hashes. A run of digits counts
// as one 0. A crowd is a set of lines whose vectors are near their mean, the crowd's middle. A line
// in a rare crowd gets a high score. A line outside all crowds gets a higher score, which grows
// with its distance to the nearest middle.
type crowds struct {
	Crowds [crowdsMost]crowd
	Used   int32
	Lines  int64
	Radius float64 // running mean of the squared distance to the nearest middle
	v      vector
	last   int // crowd that a line joined last; the next line is compared with it first
}

type crowd struct {
	Middle vector
	Count  int32
	Last   int64 // number of the crowd's last line
}

type vector [crowdNumbers]int16

const (
	crowdsMost   = 64
	crowdNumbers = 128
	crowdScale   = 64   // the numbers of a vector are square roots in units of 1/crowdScale
	crowdSumMost = 4095 // maximum count in a vector, before the square root
	crowdSlow    = 64   // a crowd's smallest step towards a line is 1/crowdSlow of the distance
	crowdRadii   = 2    // a line joins a crowd within this multiple of the mean squared distance
	crowdAge     = 256  // number of lines added to a crowd's age when place compares crowds
	farNew       = crowdNumbers * 4096
	farMost      = crowdNumbers * 410 // maximum distance for Radius: 16*Radius + farMost
	radiusSlow   = 512
	// The sum of this number of squared differences fits in a uint32: each square is at most
	// 4*crowdScale^2*crowdSumMost.
	distanceStep = 16
	gramBytes    = 3
)

// roots are crowdScale times the square roots of 0 to crowdSumMost, rounded down.
var roots = func() (r [crowdSumMost + 1]int16) {
	for i := range r {
		r[i] = int16(math.Sqrt(float64(i) * crowdScale * crowdScale))
	}
	return r
}()

// of sets v to the vector of a line.
func (v *vector) of(line []byte) {
	var sums [crowdNumbers]int32
	var gram [gramBytes]byte
	n := 0
	for i, c := range line {
		if isDigit(c) {
			if i > 0 && isDigit(line[i-1]) {
				continue
			}
			c = '0'
		}
		gram[0], gram[1], gram[2] = gram[1], gram[2], c
		if n++; n < gramBytes {
			continue
		}
		k := seedGram.with(gram[:]).spread()
		sums[k%crowdNumbers] += 1 - int32(k>>40&1)*2
	}
	for i, s := range sums {
		if s < 0 {
			v[i] = -roots[min(-s, crowdSumMost)]
		} else {
			v[i] = roots[min(s, crowdSumMost)]
		}
	}
}

// distance returns the squared distance of two vectors if it is below the parameter most. Otherwise
// it may stop early, and returns some number that is at least most.
func (v *vector) distance(w *vector, most int64) (sum int64) {
	for i := 0; i < crowdNumbers && sum < most; i += distanceStep {
		a, b := v[i:i+distanceStep], w[i:i+distanceStep]
		var part uint32
		for j := range distanceStep {
			d := int32(a[j]) - int32(b[j])
			part += uint32(d * d)
		}
		sum += int64(part)
	}
	return sum
}

// take rates a line, in bits, and learns it.
func (c *crowds) take(line []byte) (bits float64) {
	c.v.of(line)
	near, least := -1, int64(farNew)
	if c.Used > 0 {
		least = c.v.distance(&c.Crowds[min(c.last, int(c.Used)-1)].Middle, math.MaxInt64) + 1
	}
	for i := range c.Crowds[:c.Used] {
		if d := c.v.distance(&c.Crowds[i].Middle, least); d < least {
			near, least = i, d
		}
	}
	c.Lines++
	n, far := float64(c.Lines), float64(least)
	if within := crowdRadii * c.Radius; near >= 0 && far <= within {
		of := &c.Crowds[near]
		c.last = near
		bits = bitsOf((float64(of.Count) + .5) / n)
		of.join(&c.v, c.Lines)
	} else {
		bits = bitsOf(.5/n) + lg(1+far/(within+1))
		*c.place() = crowd{c.v, 1, c.Lines}
	}
	learnt := min(far, float64(16*c.Radius)+farMost)
	c.Radius += float64((learnt - c.Radius) * max(1/(n+1), 1./radiusSlow))
	return max(0, bits)
}

// join adds a line to the crowd, whose middle moves towards the line's vector.
func (c *crowd) join(v *vector, line int64) {
	step := min(c.Count, crowdSlow-1) + 1
	for i := range c.Middle {
		c.Middle[i] += int16((int32(v[i]) - int32(c.Middle[i])) / step)
	}
	c.Count = min(c.Count, math.MaxInt32-1) + 1
	c.Last = line
}

// place returns the cell for a new crowd: an unused cell, or else the cell of the crowd with the
// fewest lines for its age. A crowd's age is the number of lines since its last line.
func (c *crowds) place() *crowd {
	if c.Used < crowdsMost {
		c.Used++
		return &c.Crowds[c.Used-1]
	}
	worst, least := 0, math.Inf(1)
	for i := range c.Crowds {
		of := &c.Crowds[i]
		if x := float64(of.Count) / float64(crowdAge+c.Lines-of.Last); x < least {
			worst, least = i, x
		}
	}
	return &c.Crowds[worst]
}

package lines

import "math"

// crowds rates a line by the number of similar lines before it: part E of Rating. The vector of a
// line is a feature hashing of its three-byte substrings, in which a run of digits counts as one 0.
// A crowd is a cluster of lines; its middle is the mean of the lines' vectors. A line in a rare
// crowd gets a high score. A line outside all crowds gets a higher score, which grows with the
// distance to the nearest middle.
type crowds struct {
	Crowds [crowdsMost]crowd
	Used   int32
	Lines  int64
	Radius float64 // the running mean of a line's squared distance to the nearest middle
	v      vector
	last   int
}

type crowd struct {
	Middle vector
	Count  int32
	Last   int64
}

type vector [crowdNumbers]int16

const (
	crowdsMost   = 64
	crowdNumbers = 128
	crowdScale   = 64 // The elements of a vector are square roots, multiplied by crowdScale.
	crowdSumMost = 4095
	// A line moves the middle of its crowd by at least 1/crowdSlow of the distance.
	crowdSlow = 64
	// A line joins the nearest crowd if the squared distance is at most this multiple of Radius.
	crowdRadii = 2
	crowdAge   = 256
	farNew     = crowdNumbers * 4096
	// A squared distance above 16*Radius + farMost counts in Radius as this maximum.
	farMost    = crowdNumbers * 410
	radiusSlow = 512
	// A sum of distanceStep squared differences fits in a uint32: each square is at most
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

// distance returns the squared distance of two vectors if the distance is below the parameter
// `most`. Otherwise it returns any number that is at least most, since the loop may stop early.
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

// take returns the score of a line in bits, and adds the line to the crowds.
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

func (c *crowd) join(v *vector, line int64) {
	step := min(c.Count, crowdSlow-1) + 1
	for i := range c.Middle {
		c.Middle[i] += int16((int32(v[i]) - int32(c.Middle[i])) / step)
	}
	c.Count = min(c.Count, math.MaxInt32-1) + 1
	c.Last = line
}

// place returns a cell for a new crowd. If no cell is free, place takes the cell of the crowd with
// the smallest ratio of lines to age. The age is the number of lines since the crowd's last line,
// plus crowdAge.
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

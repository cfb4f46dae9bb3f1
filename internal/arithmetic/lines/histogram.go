package lines

// histogram is a distribution of nonnegative numbers. It forgets old numbers.
type histogram struct {
	Counts [histogramBins]float32
	N      float32
}

const (
	histogramBins   = 24
	histogramOctave = 2.5 // number of bins per doubling of 1 + x
)

// bin returns the bin of a number, and the fraction of the bin that is below the number.
func bin(x float64) (n int, part float64) {
	at := float64(lg(1+x) * histogramOctave)
	if at >= histogramBins-1 {
		return histogramBins - 1, 0
	}
	return int(at), at - float64(int(at))
}

func (h *histogram) above(x float64) float64 { return h.from(bin(x)) }

// from returns the count of the numbers from bin n on, without a fraction of bin n.
func (h *histogram) from(n int, without float64) float64 {
	sum := float64(float64(h.Counts[n]) * (1 - without))
	for _, c := range h.Counts[n+1:] {
		sum += float64(c)
	}
	return sum
}

// add adds a number. The histogram remembers about the last `memory` numbers.
func (h *histogram) add(x float64, memory float32) {
	if h.N >= memory {
		for i := range h.Counts {
			h.Counts[i] *= (memory - 1) / memory
		}
		h.N = memory - 1
	}
	n, _ := bin(x)
	h.Counts[n]++
	h.N++
}

// amongAlike computes the share of a frame's lines with at least a given score. The frame of a line
// is the sequence of its separators. The scores of all lines are the prior.
type amongAlike struct {
	All    histogram
	Frames [framesMost]alike
}

type alike struct {
	Tag, Seen uint16
	histogram
}

const (
	framesMost   = 1 << 6
	frameMemory  = 512
	framesMemory = 4096
	likeAllLines = 64 // the weight of the prior, in lines
	frameWear    = 1 << 12
)

// take returns the probability of a score of at least x among the lines of a frame. It then counts
// x.
func (a *amongAlike) take(frame key, x float64) (p float64) {
	p = (a.All.above(x) + likeAllLines/(likeAllLines+x)) / (float64(a.All.N) + 1)
	f := &a.Frames[frame%framesMost]
	tag := uint16(frame >> 48)
	if f.Seen > 0 && f.Tag == tag {
		p = (f.above(x) + float64(likeAllLines*p)) / (float64(f.N) + likeAllLines)
	}
	a.All.add(x, framesMemory)
	if f.Seen > 0 && f.Tag != tag {
		if f.Seen--; f.Seen > 0 {
			return p
		}
	}
	if f.Seen == 0 {
		*f = alike{Tag: tag}
	}
	f.Seen = min(f.Seen+1, frameWear)
	f.add(x, frameMemory)
	return p
}

package main

import (
	"math"

	"github.com/lmserve/lmserve/experiments/tape"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Maps are the activations of a batch. Row c of the matrix has channel c of all images: image after
// image, and each image row by row.
type Maps struct {
	*tape.Var
	Images, Side int
}

func newMaps(channels, images, side int) Maps {
	return Maps{tape.New(channels, images*side*side), images, side}
}

const (
	taps      = 9
	groupSize = 2048 // number of positions that a convolution unfolds at once
)

// conv returns the convolution of x with 3x3 filters w, [output channels, 9 * input channels]. The
// images are padded with zeros. The convolution is the matrix product of w and the unfolded images
// (im2col).
func conv(t *tape.Tape, x Maps, w *tape.Var) Maps {
	y := newMaps(w.Rows, x.Images, x.Side)
	u := newUnfolder(x)
	for lo := 0; lo < x.Images; lo += u.group {
		cols := u.unfold(x.Value, lo)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, whole(w, w.Value), cols, 0,
			u.slice(y, y.Value, lo))
	}
	t.Record(func() {
		for lo := 0; lo < x.Images; lo += u.group {
			dy := u.slice(y, y.Grad, lo)
			cols := u.unfold(x.Value, lo)
			blas64.Gemm(blas.NoTrans, blas.Trans, 1, dy, cols, 1, whole(w, w.Grad))
			if x.Grad != nil {
				blas64.Gemm(blas.Trans, blas.NoTrans, 1, whole(w, w.Value), dy, 0, cols)
				u.fold(x.Grad, lo)
			}
		}
	})
	return y
}

// An unfolder copies groups of images to a matrix and back. The matrix has a row for each tap
// (filter weight) of each channel, and a column for each position.
type unfolder struct {
	x      Maps
	group  int
	source [taps][]int32 // for each tap and position, the index of the pixel; -1 outside the image
	cols   []float64
}

func newUnfolder(x Maps) *unfolder {
	pixels := x.Side * x.Side
	u := &unfolder{x: x, group: min(x.Images, max(1, groupSize/pixels))}
	u.cols = make([]float64, taps*x.Rows*u.group*pixels)
	for tap := range taps {
		u.source[tap] = make([]int32, pixels)
		for p := range pixels {
			i, j := p/x.Side+tap/3-1, p%x.Side+tap%3-1
			u.source[tap][p] = -1
			if i >= 0 && j >= 0 && i < x.Side && j < x.Side {
				u.source[tap][p] = int32(i*x.Side + j)
			}
		}
	}
	return u
}

// slice returns the columns of data for the group of images that begins with image lo. Parameter
// data has the shape of v.
func (u *unfolder) slice(v Maps, data []float64, lo int) blas64.General {
	pixels := v.Side * v.Side
	n := min(u.group, v.Images-lo) * pixels
	return blas64.General{Rows: v.Rows, Cols: n, Stride: v.Cols, Data: data[lo*pixels:]}
}

func (u *unfolder) unfold(value []float64, lo int) blas64.General {
	from := u.slice(u.x, value, lo)
	to := blas64.General{Rows: taps * from.Rows, Cols: from.Cols, Stride: from.Cols, Data: u.cols}
	u.each(from, to, func(image, col []float64, source []int32) {
		for p, q := range source {
			if q < 0 {
				col[p] = 0
			} else {
				col[p] = image[q]
			}
		}
	})
	return to
}

func (u *unfolder) fold(grad []float64, lo int) {
	from := u.slice(u.x, grad, lo)
	to := blas64.General{Rows: taps * from.Rows, Cols: from.Cols, Stride: from.Cols, Data: u.cols}
	u.each(from, to, func(image, col []float64, source []int32) {
		for p, q := range source {
			if q >= 0 {
				image[q] += col[p]
			}
		}
	})
}

func (u *unfolder) each(from, to blas64.General, f func(image, col []float64, source []int32)) {
	pixels := len(u.source[0])
	for c := range from.Rows {
		for tap := range taps {
			row := to.Data[(c*taps+tap)*to.Stride:][:to.Cols]
			for at := 0; at < to.Cols; at += pixels {
				f(from.Data[c*from.Stride+at:][:pixels], row[at:][:pixels], u.source[tap])
			}
		}
	}
}

func whole(v *tape.Var, data []float64) blas64.General {
	return blas64.General{Rows: v.Rows, Cols: v.Cols, Stride: v.Cols, Data: data}
}

// A Norm is batch normalization: it normalizes each channel over the batch and the positions (Ioffe
// and Szegedy, 2015).
type Norm struct {
	Gain, Bias     *tape.Var // shape (channels, 1)
	mean, variance []float64 // decaying sums of the means and variances of batches
	weight         float64   // decaying number of batches in the sums mean and variance
}

const (
	normEps   = 1e-5
	normDecay = 0.9 // factor by which the moving statistics decay per batch
)

func newNorm(channels int) *Norm {
	n := &Norm{Gain: tape.New(channels, 1), Bias: tape.New(channels, 1)}
	for i := range n.Gain.Value {
		n.Gain.Value[i] = 1
	}
	n.Reset()
	return n
}

// Reset discards the moving statistics.
func (n *Norm) Reset() {
	n.mean, n.variance = make([]float64, n.Gain.Rows), make([]float64, n.Gain.Rows)
	n.weight = 0
}

// apply returns gain (x-mean)/sqrt(variance) + bias. If moving is true and moving statistics exist,
// apply uses them and records no gradient. Otherwise, apply uses the statistics of the batch, and
// adds these to the moving statistics.
func (n *Norm) apply(t *tape.Tape, x Maps, moving bool) Maps {
	y := newMaps(x.Rows, x.Images, x.Side)
	scale, centered := make([]float64, x.Rows), make([]float64, len(x.Value))
	moving = moving && n.weight > 0
	for c := range x.Rows {
		row := x.Row(c)
		mean, variance := moments(row)
		if moving {
			mean, variance = n.mean[c]/n.weight, n.variance[c]/n.weight
		} else {
			n.mean[c] = normDecay*n.mean[c] + mean
			n.variance[c] = normDecay*n.variance[c] + variance
		}
		scale[c] = 1 / math.Sqrt(variance+normEps)
		for i, v := range row {
			h := (v - mean) * scale[c]
			centered[c*x.Cols+i] = h
			y.Value[c*x.Cols+i] = n.Gain.Value[c]*h + n.Bias.Value[c]
		}
	}
	if moving {
		return y // only a prediction, so no gradient is recorded
	}
	n.weight = normDecay*n.weight + 1
	t.Record(func() {
		for c := range x.Rows {
			h, dy := centered[c*x.Cols:][:x.Cols], y.Grad[c*x.Cols:][:x.Cols]
			sum, dot := 0., 0.
			for i, g := range dy {
				sum += g
				dot += g * h[i]
			}
			n.Bias.Grad[c] += sum
			n.Gain.Grad[c] += dot
			f, size := n.Gain.Value[c]*scale[c], float64(x.Cols)
			dx := x.Grad[c*x.Cols:][:x.Cols]
			for i, g := range dy {
				dx[i] += f * (g - sum/size - h[i]*dot/size)
			}
		}
	})
	return y
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(len(x))
}

func pool(t *tape.Tape, x Maps) Maps {
	y := newMaps(x.Rows, x.Images, x.Side/2)
	from := make([]int32, len(y.Value))
	side := y.Side
	for k := range from {
		image, p := k/(side*side), k%(side*side)
		at := image*x.Side*x.Side + 2*(p/side)*x.Side + 2*(p%side)
		best := at
		for _, q := range []int{at + 1, at + x.Side, at + x.Side + 1} {
			if x.Value[q] > x.Value[best] {
				best = q
			}
		}
		from[k], y.Value[k] = int32(best), x.Value[best]
	}
	t.Record(func() {
		for k, g := range y.Grad {
			x.Grad[from[k]] += g
		}
	})
	return y
}

// average returns the mean of every channel of every image, with shape (images, channels).
func average(t *tape.Tape, x Maps) *tape.Var {
	y := tape.New(x.Images, x.Rows)
	pixels := x.Side * x.Side
	for k, v := range x.Value {
		y.Value[k/pixels%x.Images*x.Rows+k/x.Cols] += v / float64(pixels)
	}
	t.Record(func() {
		for k := range x.Grad {
			x.Grad[k] += y.Grad[k/pixels%x.Images*x.Rows+k/x.Cols] / float64(pixels)
		}
	})
	return y
}

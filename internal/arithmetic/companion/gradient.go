package companion

// slope is what the slopes of the byte that was scored last are made of, at its nodes.
type slope struct {
	logits   [setCount][8]float32 // of the rows of weights
	squashed [8]float32           // the means of these as probabilities
	p        [8]float32           // P(1)
	rises    [8]float32           // the derivatives of the refinements
	weights  [setCount]float32    // of the first network; but for those of the nodes
}

// keepSlope keeps what learning changes of the state.
func (x *Scratch) keepSlope(s *State) {
	for j, row := range x.look.rows {
		x.slope.weights[j] = s.weights(row, 1)[firstNetwork]
	}
	for k := range x.nodes {
		x.slope.rises[k] = x.nodes[k].refined.rise(s)
	}
}

// rise is the derivative of the refinement by the logit that it is read at.
func (r *refined) rise(s *State) float32 {
	if !r.moves {
		return 0
	}
	return s.floats[r.at+1] - s.floats[r.at]
}

// Slopes are those of the byte that was scored last. With x the network's logit, s the mean of the
// rows' logits and p = P(1),
//
//	dp/ds = (squash(s) (1 - squash(s)) + dr/ds)/2    d(-ln P)/dp = -1/p or, of a 0, 1/(1-p)
//
// What is at a bound of its range does not move.
func (x *Scratch) Slopes() (slopes Slopes) {
	of := &x.slope
	for k := range x.nodes {
		n, at, p := &x.nodes[k], k*inputCount+firstNetwork, of.p[k]
		if !(x.look.trees[0].mass[n.node] > 0) || !within(x.path[at], treeMost) ||
			p <= 1-bitMost || p >= bitMost {
			continue
		}
		pull := float32(0) // ds/dx, setCount times
		for j, w := range of.weights {
			if j == setNode {
				w = x.weights[at]
			}
			if within(of.logits[j][k], logitMost) {
				pull += w
			}
		}
		rise := float32(of.squashed[k]*(1-of.squashed[k])) + of.rises[k]
		slopes[k] = float32(pull*rise) / (2 * setCount)
		if n.bit == 1 {
			slopes[k] /= -p
		} else {
			slopes[k] /= 1 - p
		}
	}
	return slopes
}

// Gradient writes the gradient of a byte's loss by the logits [256] of the first network, whose
// distribution there was given by natural logarithms of probabilities [256]. The loss is a mean:
// the mixture's, whose slopes are given, has the share, and the network's own has the rest.
//
// With m the mass below a node, y the byte's bit there and D what all nodes above a node say of
// ln m, zero at the root, the child on the side of a bit z has
//
//	D' = D m'/m + (2z - 1) slope    slope = share slope of the mixture + (1-share) (m(1)/m - y)
//
// and a leaf below a child that the byte does not go by has its part of D', as of the mass.
func (x *Scratch) Gradient(
	logProbs []float32, b byte, slopes *Slopes, share float32, gradient []float32,
) {
	t := &x.look.trees[0]
	t.set(x.vectors, logProbs)
	above := float32(0)
	for k := range 8 {
		node, bit := nodeOf(b, k), int(bitOf(b, k))
		own := t.part(2*node+1, node) - float32(bit)
		slope := float32(share*slopes[k]) + float32((1-share)*own)
		if bit == 0 {
			slope = -slope
		}
		other := 2*node + 1 - bit
		t.spread(other, float32(above*t.part(other, node))-slope, gradient)
		above = float32(above*t.part(2*node+bit, node)) + slope
	}
	gradient[b] = above
}

// part is the part of a node's mass that is below one of its children; 0 where there is none.
func (t *tree) part(child, node int) float32 {
	if t.mass[node] == 0 {
		return 0
	}
	return t.mass[child] / t.mass[node]
}

// spread gives the leaves below a node a number, each as much of it as it has of the mass.
func (t *tree) spread(node int, sum float32, to []float32) {
	from, end := node, node+1
	for from < 256 {
		from, end = 2*from, 2*end
	}
	mass := t.mass[node]
	if mass == 0 {
		clear(to[from-256 : end-256])
		return
	}
	for i, m := range t.mass[from:end] {
		to[from-256+i] = float32(m/mass) * sum
	}
}

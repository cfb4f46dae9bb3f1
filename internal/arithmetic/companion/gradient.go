package companion

// slope stores the values that Slopes needs for each node of the last scored byte.
type slope struct {
	logits   [setCount][8]float32 // logits from each set of weights, per node
	squashed [8]float32
	p        [8]float32
	rises    [8]float32 // derivatives of the refinements with respect to the mean logit
	// each set's weight for the first network; not used for setNode, whose row depends on the node
	weights [setCount]float32
}

// keepSlope saves the values that Slopes needs, before learning changes them.
func (x *Scratch) keepSlope(s *State) {
	for j, row := range x.look.rows {
		x.slope.weights[j] = s.weights(row, 1)[firstNetwork]
	}
	for k := range x.nodes {
		x.slope.rises[k] = x.nodes[k].refined.rise(s)
	}
}

// rise returns the derivative of the refined probability with respect to the logit.
func (r *refined) rise(s *State) float32 {
	if !r.moves {
		return 0
	}
	return s.floats[r.at+1] - s.floats[r.at]
}

// Slopes returns derivatives of the mixture's loss for the last scored byte, one per node. They are
// with respect to the first network's logit x at the node. Let s be the mean of the rows' logits, r
// the refinement and p = P(1). Each derivative is the product of ds/dx and
//
//	dp/ds       = (squash(s) (1 - squash(s)) + dr/ds)/2
//	d(-ln P)/dp = -1/p if the bit is 1, else 1/(1-p)
//
// If a value is at a bound of its range, the derivative is 0.
func (x *Scratch) Slopes() (slopes Slopes) {
	of := &x.slope
	for k := range x.nodes {
		n, at, p := &x.nodes[k], k*inputCount+firstNetwork, of.p[k]
		if !(x.look.trees[0].mass[n.node] > 0) || !within(x.path[at], treeMost) ||
			p <= 1-bitMost || p >= bitMost {
			continue
		}
		pull := float32(0) // sum over the sets; the mean over the setCount sets is ds/dx
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

// Gradient writes the gradient of a byte's loss with respect to the logits [256] of the first
// network. logProbs [256] are the natural logarithms of that network's probabilities. The loss is
//
//	share (loss of the mixture) + (1-share) (loss of the network alone)
//
// The slopes are the derivatives that Slopes returns. Gradient goes from the root of the tree of
// bits down to the byte. Let m be the probability mass below a node, m_1 the mass below its child
// for bit 1, and y the byte's bit there. Let D be the derivative of the loss with respect to ln m
// that comes from the nodes above; D is 0 at the root. The child for bit z has mass m' and
// derivative
//
//	D' = D m'/m + (2z - 1) d    with d = share slopes[k] + (1-share) (m_1/m - y) at level k
//
// If the child is not on the path to the byte, D' is divided among its leaves in proportion to
// their mass.
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

// part returns the mass of a child as a fraction of its node's mass, or 0 if the node has no mass.
func (t *tree) part(child, node int) float32 {
	if t.mass[node] == 0 {
		return 0
	}
	return t.mass[child] / t.mass[node]
}

// spread distributes a number over the leaves below a node, in proportion to their mass.
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

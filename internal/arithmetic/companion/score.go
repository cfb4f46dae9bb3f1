package companion

import "math/bits"

// Score returns the negative log-likelihood, in nats, of a byte after the state's text, given the
// networks' distributions. Score then learns the byte and appends it to the text. Distribution
// computes the bit-identical log-probability of the byte.
func (x *Scratch) Score(s *State, of Networks, b byte) (nll float32) {
	x.prepare(s, of)
	x.gatherPath(s, b)
	var logits [setCount][8]float32
	var means, p [8]float32
	for j, row := range x.look.rows {
		weights, stride := s.weights(row, 1), 0
		if j == setNode {
			weights, stride = x.weights[:], inputCount
		}
		x.vectors.DotRows(logits[j][:], x.path[:], weights, inputCount, stride)
	}
	for k := range means {
		means[k] = meanOf(&logits, k)
		x.nodes[k].refined, p[k] = x.look.refinedAt(s, x.nodes[k].node, means[k])
	}
	x.slope.logits = logits
	for j := range logits {
		squash(x.vectors, logits[j][:])
	}
	squash(x.vectors, means[:])
	for k := range p {
		p[k] = together(means[k], p[k])
	}
	x.slope.squashed, x.slope.p = means, p
	x.keepSlope(s)
	for k := range x.nodes {
		for j := range logits {
			x.nodes[k].sets[j] = logits[j][k]
		}
		if x.nodes[k].bit == 0 {
			p[k] = 1 - p[k]
		}
	}
	x.vectors.Log(p[:], p[:])
	sum := float32(0)
	for _, l := range p {
		sum += l
	}
	x.learn(s, b)
	return -sum
}

func (x *Scratch) gatherPath(s *State, b byte) {
	for i := range x.look.of {
		x.look.trees[i].path(x.vectors, b)
	}
	var half buckets
	half.find(s, &x.look.contexts)
	for k := range x.nodes {
		if k == 4 {
			hashes := x.look.lowers(int(b >> 4))
			half.find(s, &hashes)
		}
		n, in := &x.nodes[k], (*inputs)(x.path[k*inputCount:])
		n.node, n.bit = nodeOf(b, k), float32(bitOf(b, k))
		n.met = in.gather(s, &x.look, &half, n.node, k)
		copy(x.weights[k*inputCount:(k+1)*inputCount], s.weights(nodeRows+n.node, 1))
	}
}

// Distribution writes the natural logarithms of the next byte's 256 probabilities, given the
// networks' distributions. It does not change the state.
func (x *Scratch) Distribution(s *State, of Networks, logProbs []float32) {
	x.prepare(s, of)
	x.gatherAll(s)
	for j, row := range x.look.rows {
		weights, stride := s.weights(row, 1), 0
		if j == setNode {
			weights, stride = s.weights(nodeRows, 256), inputCount
		}
		x.vectors.DotRows(x.logits[j][:], x.inputs[:], weights, inputCount, stride)
	}
	means := &x.logits[0]
	for node := 1; node < 256; node++ {
		mean := meanOf(&x.logits, node)
		_, x.ones[node] = x.look.refinedAt(s, node, mean)
		means[node] = mean
	}
	squash(x.vectors, means[:])
	for node := 1; node < 256; node++ {
		p := together(means[node], x.ones[node])
		x.ones[node], x.zeros[node] = p, 1-p
	}
	x.vectors.Log(x.ones[:], x.ones[:])
	x.vectors.Log(x.zeros[:], x.zeros[:])
	sum := &x.logits[1] // for each node: log-probability of the bits from the root to the node
	sum[1] = 0
	for node := 1; node < 128; node++ {
		sum[2*node], sum[2*node+1] = sum[node]+x.zeros[node], sum[node]+x.ones[node]
	}
	for node := 128; node < 256; node++ {
		b := 2*node - 256
		logProbs[b], logProbs[b+1] = sum[node]+x.zeros[node], sum[node]+x.ones[node]
	}
}

func (x *Scratch) gatherAll(s *State) {
	for i := range x.look.of {
		x.look.trees[i].all(x.vectors)
	}
	var half buckets
	half.find(s, &x.look.contexts)
	x.gatherHalf(s, &half, 1, 0)
	for higher := range 16 {
		hashes := x.look.lowers(higher)
		half.find(s, &hashes)
		x.gatherHalf(s, &half, 16|higher, 4)
	}
}

// gatherHalf collects the inputs at the 15 nodes of one half of a byte. The top node is number
// `from`, which codes bit k of the byte; the other nodes are below that node.
func (x *Scratch) gatherHalf(s *State, half *buckets, from, k int) {
	for n := 1; n < 16; n++ {
		deep := bits.Len(uint(n)) - 1
		node := from<<deep | n&(1<<deep-1)
		(*inputs)(x.inputs[node*inputCount:]).gather(s, &x.look, half, node, k+deep)
	}
}

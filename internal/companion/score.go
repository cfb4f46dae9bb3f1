package companion

import "math/bits"

// Score returns the negative log-likelihood, in nats, of a byte behind the state's text, given the
// networks' distributions there, and goes on behind the byte. The number is that of Distribution,
// bit by bit.
func (x *Scratch) Score(s *State, of Networks, b byte) (nll float32) {
	x.prepare(s, of)
	for i := range x.look.of {
		x.look.trees[i].path(x.vectors, b)
	}
	var half buckets
	var logits [8 * (setCount + 1)]float32 // of the sets, and then their means
	means := logits[8*setCount:]
	half.find(s, &x.look.contexts)
	for k := range x.nodes {
		if k == 4 {
			hashes := x.look.lowers(int(b >> 4))
			half.find(s, &hashes)
		}
		n := &x.nodes[k]
		n.node, n.bit = nodeOf(b, k), float32(bitOf(b, k))
		n.gather(s, &x.look, &half, n.node, k)
		means[k] = n.mix(x.vectors, s, &x.look, n.node, (*[setCount]float32)(logits[setCount*k:]))
	}
	var p [8]float32
	for k, mean := range means {
		x.nodes[k].refined, p[k] = x.look.refinedAt(s, x.nodes[k].node, mean)
	}
	squash(x.vectors, logits[:])
	for k := range x.nodes {
		x.nodes[k].sets = [setCount]float32(logits[setCount*k:])
		p[k] = together(means[k], p[k])
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

// Distribution writes the natural logarithms of the probabilities [256] of the next byte, given the
// networks' distributions there. The state stays as it is.
func (x *Scratch) Distribution(s *State, of Networks, logProbs []float32) {
	x.prepare(s, of)
	for i := range x.look.of {
		x.look.trees[i].all(x.vectors)
	}
	var half buckets
	half.find(s, &x.look.contexts)
	x.half(s, &half, 1, 0)
	for higher := range 16 {
		hashes := x.look.lowers(higher)
		half.find(s, &hashes)
		x.half(s, &half, 16|higher, 4)
	}
	squash(x.vectors, x.whole[:])
	for node := 1; node < 256; node++ {
		p := together(x.whole[node], x.ones[node])
		x.ones[node], x.zeros[node] = p, 1-p
	}
	x.vectors.Log(x.ones[:], x.ones[:])
	x.vectors.Log(x.zeros[:], x.zeros[:])
	sum := &x.whole // of the logarithms on the way to a node
	sum[1] = 0
	for node := 1; node < 128; node++ {
		sum[2*node], sum[2*node+1] = sum[node]+x.zeros[node], sum[node]+x.ones[node]
	}
	for node := 128; node < 256; node++ {
		b := 2*node - 256
		logProbs[b], logProbs[b+1] = sum[node]+x.zeros[node], sum[node]+x.ones[node]
	}
}

// half finds the sets' mean logits, and the refinements, at the 15 nodes of a half of a byte: from a
// node on whose bit is the k-th of the byte.
func (x *Scratch) half(s *State, half *buckets, from, k int) {
	var a [setCount]float32
	for n := 1; n < 16; n++ {
		deep := bits.Len(uint(n)) - 1
		node := from<<deep | n&(1<<deep-1)
		x.in.gather(s, &x.look, half, node, k+deep)
		mean := x.in.mix(x.vectors, s, &x.look, node, &a)
		_, x.ones[node] = x.look.refinedAt(s, node, mean)
		x.whole[node] = mean
	}
}

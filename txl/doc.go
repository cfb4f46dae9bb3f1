// Package txl implements Transformer-XL: configuration, parameters, forward, loss, backward and
// sampling, in float32, with a hand-written backward.
//
// The model (Dai et al. 2019), for one layer with input h (n rows) and memory mem (m rows,
// without gradient), c = [mem; h]:
//
//	q = h Wqᵀ   k = c Wkᵀ   v = c Wvᵀ   r = R W_rᵀ          row blocks of qkv_net, r_net
//	score(i,j) = ((q_i + r_w_bias)·k_j + (q_i + r_r_bias)·r_(i+m-j)) / sqrt(d)    j <= i+m
//	x  = LN(h + o_net(softmax(score) v))
//	h' = LN(x + W2 act(W1 x + b1) + b2)
//
// With PreLNorm the normalizations come first: q, k, v from LN(c), W1 on LN(x), and none after
// the last layer. The embedding is scaled by sqrt(D) and tied to the softmax.
//
// Word-level models divide the vocabulary into clusters, from frequent to rare (adaptive input
// and adaptive softmax). P projects a cluster's narrower embeddings E to the width of the model.
// Q, often equal to P, projects back:
//
//	input(w)  = sqrt(D) P E_w
//	logits    = E Qᵀh + b                                   of one cluster
//	p(w)      = softmax(head)_w                             w in the first cluster, the head
//	p(w)      = softmax(head)_cluster softmax(cluster)_w    w in another one, a tail
//
// Scoring computes the head and only the tails of its targets.
//
// The weights W are one flat arena, shared and read-only. A stream's fast weights M are passed
// separately. Every product adds W+M as it reads them, and gradients are those at the effective
// weights.
//
// A row's values depend only on the rows before it, with sums in a fixed order. So a segment may
// be computed in pieces, on any number of threads, with the same bits.
package txl

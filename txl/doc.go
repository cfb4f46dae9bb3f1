// Package txl implements Transformer-XL: configuration, parameters, forward, loss, backward and
// sampling, in float32, with a hand-written backward pass.
//
// These are the equations of the model (Dai et al. 2019) for one layer with input h (n rows) and
// memory mem (m rows, without gradient), where c = [mem; h]:
//
//	q = h Wqᵀ   k = c Wkᵀ   v = c Wvᵀ   r = R W_rᵀ          row blocks of qkv_net, r_net
//	score(i,j) = ((q_i + r_w_bias)·k_j + (q_i + r_r_bias)·r_(i+m-j)) / sqrt(d)    j <= i+m
//	x  = LN(h + o_net(softmax(score) v))
//	h' = LN(x + W2 act(W1 x + b1) + b2)
//
// R contains the sinusoidal encodings of the distances. With PreLNorm, q, k and v are computed from
// LN(c), W1 is applied to LN(x), and the sums are not normalized. The embedding is scaled by
// sqrt(D). Its table is also the softmax's matrix, unless UntieSoftmax is set.
//
// Word-level models divide the vocabulary into clusters, from frequent to rare (adaptive input
// and adaptive softmax). P projects a cluster's narrower embeddings E to the width of the model.
// Q, often equal to P, projects hidden states to the width of E:
//
//	input(w)  = sqrt(D) P E_w
//	logits    = E Qᵀh + b                                   of one cluster
//	p(w)      = softmax(head)_w                             w in the first cluster, the head
//	p(w)      = softmax(head)_cluster softmax(cluster)_w    w in another cluster, a tail
//
// Scoring computes the head, and only those tails that contain a target.
//
// The weights W are one flat array, shared and read-only. The fast weights M of a stream are passed
// separately. All products use W+M, and gradients are taken at W+M.
//
// The results for a row depend only on earlier rows, and all sums have a fixed order. So a segment
// can be computed in pieces, on any number of threads, with the same bits.
package txl

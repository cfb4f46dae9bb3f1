// Package sparsemeta implements the method Sparse-MetaNet without a language model. It has the fast
// weights M, which are added to a model's slow weights W (eq. 1), and the decaying averages I of
// the gradients. It also has the random masks and the meta-learner g, which turns I into M. Two
// rival methods are here for comparison. The first is dynamic evaluation ([Dynamic]), plain or
// scaled by [Statistics] of the gradients. The second is the continuous cache ([Cache]).
//
// Matrices are flat here. A caller names its branches (the matrices with fast weights) and stores
// their elements end to end in an arena of float32. The caller passes the gradient G of each
// chunk's loss in the same layout. After a chunk, every element of every bank changes (eqs. 3 to
// 6):
//
//	I <- gamma I + beta1 G
//	x  = (I + beta2 G) scale
//	M <- out g(x)              with probability p, else unchanged
//
// Each bank has a separate gamma, I, masks and meta-learners. The fast weights of the model are the
// sum of the banks' M. The Sparse-MetaNet paper has one bank, scale 1 and out 1. A [State] holds I
// and M in float32 or, for sessions, in bfloat16.
//
// # The meta-learner and its table
//
// g is a function of one number: a [Network] of 501 weights for each branch of each bank.
// [Network.Eval] defines g in float64. Updates use a [Table].
//
// The coordinate u(x) is e^7 x up to |x| = e^-7 and grows with ln|x| beyond. As a function of u,
// g is piecewise affine: the preprocessing is affine in u on each of three intervals, and the
// rest of the network is leaky rectifiers. A table is built in two steps. First, it gets two
// nodes in each affine piece of g; the values of g at the nodes determine g. Second, the nodes fill
// a fine grid, whose cells are found from the bits of the float 1 + e^7|x|. Inside a cell the grid
// is linear.
//
// The nodes also carry the gradient. The derivative of g(x) with respect to the network's weights
// is affine on the same pieces. So the gradients of all elements can be summed at the nodes
// ([State.NodeGradient]), and backpropagation (package metatrain) needs only the nodes. The result
// is exact. Nodes at fixed places would not be exact, because the derivatives jump at the ends of
// the pieces. With 16 nodes per octave, interpolating across the jumps made errors of a fifth of
// the gradient's largest entry. With 2048 nodes per octave, the errors were still a hundredth.
//
// # Determinism
//
// Results do not depend on the number of threads or on the order of work. Every element is
// computed independently. Its mask bit and the rounding of its average are pure functions of
// (seed, bank, branch, step, element). No product is fused with a sum.
package sparsemeta

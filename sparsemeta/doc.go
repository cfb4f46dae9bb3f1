// Package sparsemeta is Sparse-MetaNet without a language model: the fast
// weights M that are added to a model's slow weights W (eq. 1), the averages I of
// its gradients, the random masks, and the meta-learner g that turns the one into
// the other. Beside it are its rivals: dynamic evaluation ([Dynamic]), plain or
// scaled by [Statistics] of the gradients, and the continuous cache ([Cache]).
//
// Matrices are flat here. A caller names its branches (the matrices that have fast
// weights), lays their elements one after the other in an arena of float32, and
// hands in the gradient G of each chunk's loss in the same layout. After a chunk,
// for every bank and every element (eqs. 3 to 6):
//
//	I <- gamma I + beta1 G
//	x  = (I + beta2 G) scale
//	M <- out g(x)              with probability p, else unchanged
//
// A bank has its own gamma, I, masks and meta-learners; the fast weights of the
// model are the sum of the banks' M. The paper has one bank, scale 1 and out 1.
// A [State] holds I and M in float32 or, as sessions do, in bfloat16.
//
// # The meta-learner and its table
//
// g is a function of one number: a [Network] of 501 weights for each branch of each
// bank. [Network.Eval] is its definition, in float64. What runs is a [Table].
//
// As a function of the coordinate u(x), which is e^7 x up to |x| = e^-7 and grows
// with ln|x| beyond, g is piecewise affine: the preprocessing is affine in u on each
// of three stretches, the rest of the network is leaky rectifiers. A table is built
// in two steps. Its nodes are two to each affine piece of g, and g's values at the
// nodes are all there is to know of g. From them a fine grid is filled, whose cells
// are found from the bits of the float 1 + e^7|x|; inside a cell it is linear. The
// nodes also carry the gradient: the derivative of g(x) with respect to the
// network's weights is affine on the same pieces, so that the gradients of all
// elements can be summed at the nodes ([State.NodeGradient]) and only the nodes go
// back through the network (package metatrain). That is exact. Nodes at fixed places
// would not do: the derivatives jump at the ends of the pieces, and interpolating
// across the jumps put the gradient off by a fifth of its largest entry at 16 nodes
// an octave, and by a hundredth still at 2048.
//
// # Determinism
//
// Results do not depend on the number of threads or on the order of work: every
// element is computed by itself, its mask bit and what its average is rounded by are
// pure functions of (seed, bank, branch, step, element), and no product is fused with
// a sum.
package sparsemeta

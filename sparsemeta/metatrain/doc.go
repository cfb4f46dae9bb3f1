// Package metatrain is where the meta-learners learn. The network of each branch is
// a gorgonia graph over the nodes of its table (package sparsemeta): run forward it
// gives g's values at the nodes, from which the table is filled; run backward it
// turns the gradients that were summed at the nodes into gradients with respect to
// the network's 501 weights; gorgonia's Adam then steps the weights of all networks.
//
// The cost is that of a step, not of a fast weight: a network has some 160 nodes, whatever the size
// of its branch and the number of chunks whose gradients were summed.
//
// The graph computes in float64. It is not slower than float32 at this size, it
// agrees with the definition of g to rounding, and the gradients are sums in which
// much cancels.
package metatrain

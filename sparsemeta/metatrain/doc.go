// Package metatrain trains the meta-learners. The network of each branch is a gorgonia graph over
// the nodes of its table (package sparsemeta). Forward computes g's values at the nodes, which
// fill the table. Backward turns the gradients summed at the nodes into gradients with respect to
// the network's 501 weights. Gorgonia's Adam then steps the weights of all networks.
//
// A network always has some 160 nodes. So a step costs the same for any size of the branches and
// any number of chunks in the sum.
//
// The graph computes in float64. At this size that is not slower than float32. It agrees with the
// definition of g up to rounding, and much cancels in the sums of gradients.
package metatrain

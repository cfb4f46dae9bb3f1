// Package metatrain trains the meta-learners: small networks g that compute fast weights from
// gradient averages. Package sparsemeta tabulates g at chosen inputs, the nodes of a table. Here, a
// gorgonia graph computes g at all nodes in the forward pass. The backward pass turns the loss
// gradients at the nodes into gradients of the network's 501 weights. Gorgonia's Adam then updates
// the weights of all networks.
//
// A table has about 160 nodes. The cost of a training step therefore depends neither on the size of
// the branches nor on the number of chunks.
//
// The graph computes in float64, because many terms cancel in the sums of gradients. At this size,
// float64 is as fast as float32.
package metatrain

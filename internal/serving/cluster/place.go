package cluster

import (
	"hash/fnv"
	"slices"
)

// Rendezvous chooses a node for a key by rendezvous hashing. It excludes draining nodes and nodes
// without the model, and prefers nodes whose arithmetic is the parameter numerics. An empty model
// or numerics matches every node. Servers that know the same nodes choose the same node. When a
// node joins or leaves, only that node's keys move. found is false if no node remains.
func Rendezvous(nodes []Node, key, model, numerics string) (chosen Node, found bool) {
	var best uint64
	var alike bool
	for _, n := range nodes {
		if n.Draining || model != "" && !slices.Contains(n.Models, model) {
			continue
		}
		same := numerics == "" || n.Numerics == numerics
		weight := weigh(n.Name, key)
		better := !found || same && !alike || same == alike && weight > best
		if better {
			chosen, found, best, alike = n, true, weight, same
		}
	}
	return chosen, found
}

// weigh hashes a node's name and a key to a pseudo-random number with FNV-1a. The last steps are
// the finalizer of MurmurHash3: without them, names that differ only in their last bytes would get
// similar numbers.
func weigh(node, key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(key))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

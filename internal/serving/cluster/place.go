package cluster

import (
	"hash/fnv"
	"slices"
)

// Rendezvous chooses a node for a key, among those that take sessions. It prefers nodes with the
// model and the given arithmetic to those with only the model. All servers that know the same nodes
// choose the same one. When a node joins or leaves, only the keys of that node move. An empty
// arithmetic or model matches any. found is false if there is no node.
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

// weigh returns a pseudo-random number of a node and a key. It uses FNV-1a and the last steps of
// MurmurHash3; without these, names that differ only at their ends would have similar numbers.
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

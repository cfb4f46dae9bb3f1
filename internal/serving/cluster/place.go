package cluster

import (
	"hash/fnv"
	"slices"
)

// Rendezvous chooses a node for a key, of those that take sessions: one of the given arithmetic
// that has the model, else any that has the model. All servers that know the same nodes choose the
// same, and with a node that comes or goes only the keys change places that come to it or were with
// it. An empty arithmetic, or model, is any. false: there is none.
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

// weigh is a number that a node and a key have together, as if it were drawn (FNV-1a, and the last
// steps of MurmurHash3, without which names that differ in their ends have numbers alike).
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

package eval

import "fmt"

// Values of Options.KV: what becomes of the keys and values of the memory when the fast weights
// that make them move.
const (
	KVExact  = "exact"  // they are computed again, as sessions do
	KVCached = "cached" // they stay as they are, see txl.Reuse
)

// checkKV reports a value of KV that is wrong.
func (o Options) checkKV() error {
	if o.KV != KVExact && o.KV != KVCached {
		return fmt.Errorf("eval: kv is %q, expected %s or %s", o.KV, KVExact, KVCached)
	}
	return nil
}

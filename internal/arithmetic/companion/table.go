package companion

// The table of bit histories consists of buckets of 16 bytes: a check byte, 0 in an empty bucket,
// and the numbers of the histories at the 15 nodes of half a byte. A context has a bucket for the
// higher half of the next byte. It has another bucket for the lower half after each value of the
// higher half. A bucket has four possible places in a cache line. If all are taken, it replaces the
// bucket that has seen the fewest bits.
const (
	bucketBytes = 16
	lineBuckets = 4
)

// table has 16 bytes for each bucket. The number of buckets is a power of two.
type table []uint8

type bucket [bucketBytes]uint8

// at returns the bucket at an offset.
func (t table) at(offset int) *bucket { return (*bucket)(t[offset:]) }

// first returns the index of the first bucket to try for a hash, and the check byte.
func (t table) first(h uint32) (at uint32, check uint8) {
	h *= 0x9e3779b1
	h ^= h >> 15
	return h & uint32(len(t)/bucketBytes-1), max(1, uint8(h>>24))
}

// find returns the offset of a hash's bucket, or -1 if the table has none.
func (t table) find(h uint32) int {
	first, check := t.first(h)
	for i := range uint32(lineBuckets) {
		at := int(first^i) * bucketBytes
		if t[at] == check {
			return at
		}
		if t[at] == 0 {
			break
		}
	}
	return -1
}

// place returns the offset of a hash's bucket, or of the bucket to replace, and the check byte.
func (t table) place(h uint32) (at int, check uint8) {
	first, check := t.first(h)
	least := 1 << 10
	for i := range uint32(lineBuckets) {
		here := int(first^i) * bucketBytes
		if t[here] == check || t[here] == 0 {
			return here, check
		}
		if seen := histories[t[here+1]].seen(); seen < least {
			at, least = here, seen
		}
	}
	return at, check
}

package companion

// The table of bit histories consists of buckets of 16 bytes. A bucket starts with a check byte,
// which is 0 if the bucket is empty. The other 15 bytes are the history numbers of the 15 tree
// nodes of half a byte. A context has one bucket for the higher half of the next byte. For each
// value of the higher half, it has another bucket for the lower half. A hash selects four buckets
// in a cache line. If all four are taken, the new bucket replaces the bucket that has counted the
// fewest bits.
const (
	bucketBytes = 16
	lineBuckets = 4
)

// table is the memory of all buckets, 16 bytes each. The number of buckets is a power of two.
type table []uint8

type bucket [bucketBytes]uint8

func (t table) at(offset int) *bucket { return (*bucket)(t[offset:]) }

// first returns the index of the first bucket to try for a hash, and the hash's check byte. The
// check byte is not 0, since 0 marks an empty bucket.
func (t table) first(h uint32) (at uint32, check uint8) {
	h *= 0x9e3779b1
	h ^= h >> 15
	return h & uint32(len(t)/bucketBytes-1), max(1, uint8(h>>24))
}

// find returns the offset of the bucket for a hash, or -1 if the table has no such bucket.
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

// place returns the check byte of a hash and the offset of the bucket with that check byte. If
// there is no such bucket, place returns the offset of the bucket to overwrite.
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

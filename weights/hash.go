package weights

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// hashTag begins what is hashed: no other file's hash can be mistaken for this one's.
const hashTag = "lmserve weights 1\n"

// Hash returns the SHA-256 of the content, in lower-case hexadecimal: the name
// of the model. What enters it, in this order:
//
//	"lmserve weights 1\n", without a length
//	number of metadata entries; each, sorted by key: key, value
//	number of tensors; each, sorted by name: name, dtype, number of dimensions, dimensions, data
//
// Numbers are 8 bytes, little endian. Text and data come after their length in
// bytes, as such a number. So the hash sees every byte, name, shape and
// metadata string, and sees neither compression, nor the order in the file,
// nor how the header was written.
func (f *File) Hash() string {
	h := sha256.New()
	number := func(n int) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	text := func(b []byte) { number(len(b)); h.Write(b) }

	h.Write([]byte(hashTag))
	number(len(f.Metadata))
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		text([]byte(key))
		text([]byte(f.Metadata[key]))
	}
	number(len(f.Tensors))
	byName := func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) }
	for _, t := range slices.SortedStableFunc(slices.Values(f.Tensors), byName) {
		text([]byte(t.Name))
		text([]byte(t.DType))
		number(len(t.Shape))
		for _, d := range t.Shape {
			number(d)
		}
		text(t.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

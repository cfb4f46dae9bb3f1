package weights

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
	hash, err := f.Stored().Hash()
	if err != nil {
		panic(err) // what is in memory can be read
	}
	return hash
}

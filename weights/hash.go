package weights

// hashTag is the beginning of the hashed data. It distinguishes this hash from hashes of other
// kinds of data.
const hashTag = "lmserve weights 1\n"

// Hash returns the SHA-256 of the content, in lower-case hexadecimal. The hash identifies the
// model. The hashed data are, in this order:
//
//	"lmserve weights 1\n", without a length
//	number of metadata entries; each, sorted by key: key, value
//	number of tensors; each, sorted by name: name, dtype, number of dimensions, dimensions, data
//
// Numbers are 8 bytes, little endian. Before each text and each tensor's data is its length in
// bytes, as an 8-byte number. So the hash depends on every name, shape, metadata string and byte of
// data. It does not depend on compression, on the order in the file, or on the form of the header.
func (f *File) Hash() string {
	hash, err := f.Stored().Hash()
	if err != nil {
		panic(err) // reading from memory cannot fail
	}
	return hash
}

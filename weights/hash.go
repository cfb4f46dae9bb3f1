package weights

// hashTag begins the hashed data, so that no other file can have the same hash.
const hashTag = "lmserve weights 1\n"

// Hash returns the SHA-256 of the content, in lower-case hexadecimal. It identifies the model.
// The hashed data are, in this order:
//
//	"lmserve weights 1\n", without a length
//	number of metadata entries; each, sorted by key: key, value
//	number of tensors; each, sorted by name: name, dtype, number of dimensions, dimensions, data
//
// Numbers are 8 bytes, little endian. Before each text and each data is its length in bytes, as
// such a number. So the hash depends on every byte, name, shape and metadata string. It does not
// depend on compression, on the order in the file, or on how the header was written.
func (f *File) Hash() string {
	hash, err := f.Stored().Hash()
	if err != nil {
		panic(err) // reading from memory cannot fail
	}
	return hash
}

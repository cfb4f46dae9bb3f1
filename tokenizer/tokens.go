package tokenizer

// Tokens are the tokens of a text in order, with sizes and character counts. All slices have the
// same length. The zero value is empty.
type Tokens struct {
	IDs   []int32
	Sizes []int64 // in bytes; 0 only for a line end that End added
	Chars []int64 // number of characters that begin in each token
}

// NewTokens returns Tokens with capacity for n tokens.
func NewTokens(n int) Tokens {
	return Tokens{make([]int32, 0, n), make([]int64, 0, n), make([]int64, 0, n)}
}

// Reset empties t and keeps its capacity.
func (t *Tokens) Reset() { t.IDs, t.Sizes, t.Chars = t.IDs[:0], t.Sizes[:0], t.Chars[:0] }

// Size returns the number of bytes of all tokens.
func (t *Tokens) Size() (sum int64) {
	for _, n := range t.Sizes {
		sum += n
	}
	return sum
}

func (t *Tokens) add(id int32, size, chars int64) {
	t.IDs = append(t.IDs, id)
	t.Sizes = append(t.Sizes, size)
	t.Chars = append(t.Chars, chars)
}

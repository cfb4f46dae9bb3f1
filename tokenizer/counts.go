package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxDistinct is the maximum number of different words in Counts. These words need about 1.5 GB of
// memory.
const MaxDistinct = 1 << 24

// Counts counts the words of texts, to build a vocabulary. The zero value is empty.
type Counts struct {
	index   map[string]int
	counts  []int64
	pending Pending
	words   int64
	lines   int64
	long    int64
}

// Words returns the number of counted words. The number of tokens is Words plus Lines.
func (c *Counts) Words() int64 { return c.words }

// Lines returns the number of counted line ends.
func (c *Counts) Lines() int64 { return c.lines }

// Distinct returns the number of different words.
func (c *Counts) Distinct() int { return len(c.counts) }

// Add counts the words of the next piece of a text. It returns an error that wraps ErrVocabulary
// if there are more than MaxDistinct different words.
func (c *Counts) Add(text []byte) error {
	for {
		var found piece
		if found, text = c.pending.next(text); found.kind == noPiece {
			return nil
		}
		if err := c.count(found); err != nil {
			return err
		}
	}
}

// End ends the current text. The next Add begins another text.
func (c *Counts) End() error {
	word, line := c.pending.last()
	if err := c.count(word); err != nil {
		return err
	}
	return c.count(line)
}

func (c *Counts) count(found piece) error {
	switch found.kind {
	case noPiece:
		return nil
	case linePiece:
		c.lines++
		return nil
	}
	c.words++
	if found.word == nil {
		c.long++
		return nil
	}
	if i, ok := c.index[string(found.word)]; ok {
		c.counts[i]++
		return nil
	}
	if len(c.counts) == MaxDistinct {
		return fmt.Errorf("%w: found more than %d different words: is this natural-language text?",
			ErrVocabulary,
			MaxDistinct)
	}
	if c.index == nil {
		c.index = map[string]int{}
	}
	c.index[string(found.word)] = len(c.counts)
	c.counts = append(c.counts, 1)
	return nil
}

// VocabularyOptions choose the words of a vocabulary. The zero value takes all words.
type VocabularyOptions struct {
	Size     int   // maximum number of symbols, including LineEnd and Unknown; 0: MaxVocab
	MinCount int64 // minimum count of a word; 0: 1
}

// Validate returns an error for a field that is out of range.
func (o VocabularyOptions) Validate() error {
	if o.Size < 0 || o.Size == 1 || o.Size == 2 || o.Size > MaxVocab {
		return fmt.Errorf("tokenizer: size of the vocabulary is %d, expected 3 to %d, or 0 for "+
			"all words",
			o.Size, MaxVocab)
	}
	if o.MinCount < 0 {
		return fmt.Errorf("tokenizer: least count of a word is %d, expected 0 or more", o.MinCount)
	}
	return nil
}

type counted struct {
	symbol string
	count  int64
}

func descending(a, b counted) int {
	return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.symbol, b.symbol))
}

// Vocabulary returns a tokenizer of the most frequent words. Symbol 0 is LineEnd, as in the
// reference implementation; the others follow by descending count. Words with equal counts are in
// byte order, so that the order of the texts does not matter. unknown is the number of counted
// words that become Unknown: all words left out, and words spelled like Unknown.
func (c *Counts) Vocabulary(o VocabularyOptions) (w *Words, unknown int64, err error) {
	if err := o.Validate(); err != nil {
		return nil, 0, err
	}
	words := make([]counted, 0, len(c.counts))
	unknown = c.long
	for word, i := range c.index {
		if word == LineEnd || word == Unknown || c.counts[i] < o.MinCount {
			unknown += c.counts[i]
			continue
		}
		words = append(words, counted{word, c.counts[i]})
	}
	slices.SortFunc(words, descending)
	if most := cmp.Or(o.Size, MaxVocab) - 2; len(words) > most {
		for _, word := range words[most:] {
			unknown += word.count
		}
		words = words[:most]
	}
	own := counted{Unknown, unknown}
	at, _ := slices.BinarySearchFunc(words, own, descending)
	words = slices.Insert(words, at, own)
	symbols := append(make([]string, 0, len(words)+1), LineEnd)
	for _, word := range words {
		symbols = append(symbols, word.symbol)
	}
	w, err = NewWords(symbols)
	return w, unknown, err
}

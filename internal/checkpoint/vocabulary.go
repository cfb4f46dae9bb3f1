package checkpoint

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nlpodyssey/gopickle/types"
)

// ReadVocabulary reads the symbols of a vocabulary in the order of their ids: a text of a symbol a
// line, with or without its count behind it, or a pickle of the reference's class Vocab, of a
// corpus that has one, or of the dictionary that Hugging Face's library makes of one, as
// pickle.dump or torch.save writes them.
func ReadVocabulary(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	symbols, err := readVocabulary(f, info.Size())
	return symbols, inFile(err, path)
}

// readVocabulary finds out the form of a vocabulary and reads it.
func readVocabulary(f io.ReaderAt, size int64) ([]string, error) {
	head := make([]byte, 4)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("checkpoint: reading: %w", err)
	}
	head = head[:n]
	var object any
	switch {
	case isArchive(head):
		_, object, err = loadObject(f, size, head)
	case bytes.HasPrefix(head, []byte{0x80}): // of a pickle of protocol 2 and later; no text in UTF-8
		object, err = loadVocabulary(f, size)
	default:
		return vocabularyText(io.NewSectionReader(f, 0, size))
	}
	if err != nil {
		return nil, err
	}
	return symbolsOf(object)
}

// loadVocabulary makes the objects of what pickle.dump wrote, or torch.save before version 1.6.
func loadVocabulary(f io.ReaderAt, size int64) (any, error) {
	object, err := unpickle(bufio.NewReader(io.NewSectionReader(f, 0, size)), nil)
	if err != nil {
		return nil, err
	}
	switch object.(type) {
	case *module, *types.Dict, *types.OrderedDict:
		return object, nil
	}
	return loadLegacy(f, size)
}

// symbolsOf gives the symbols of a vocabulary as an object.
func symbolsOf(object any) ([]string, error) {
	attributes, err := attributesOfAny(object)
	if err != nil {
		return nil, err
	}
	if inner, ok := attributes["vocab"]; ok { // of a corpus
		if attributes, err = attributesOfAny(inner); err != nil {
			return nil, err
		}
	}
	list, ok := attributes["idx2sym"].(*types.List)
	if !ok {
		return nil, malformed("vocabulary, idx2sym", describe(attributes["idx2sym"]), "a list of symbols")
	}
	symbols := make([]string, list.Len())
	seen := make(map[string]bool, list.Len())
	for i, o := range *list {
		s, ok := o.(string)
		if !ok {
			return nil, malformed("vocabulary, symbol "+strconv.Itoa(i), describe(o), "a string")
		}
		if err := checkSymbol(i, s, seen); err != nil {
			return nil, err
		}
		symbols[i] = s
	}
	return symbols, nil
}

// attributesOfAny gives the attributes of an object, or the entries of a dictionary.
func attributesOfAny(object any) (map[string]any, error) {
	if m, ok := object.(*module); ok {
		return m.attributes, nil
	}
	return stringKeys(object)
}

// vocabularyText reads a symbol a line; as in the reference, the first word of a line is the
// symbol.
func vocabularyText(r io.Reader) ([]string, error) {
	in := bufio.NewScanner(io.LimitReader(r, maxVocabularyBytes))
	var symbols []string
	seen := map[string]bool{}
	for line := 1; in.Scan(); line++ {
		fields := strings.Fields(in.Text())
		where := "vocabulary, line " + strconv.Itoa(line)
		switch {
		case len(fields) == 0 || len(fields) > 2:
			return nil, malformed(where, quote(in.Text()), "a symbol, and maybe its count")
		case seen[fields[0]]:
			continue // as the reference does
		}
		if len(fields) == 2 {
			if _, err := strconv.ParseUint(fields[1], 10, 64); err != nil {
				return nil, malformed(where, quote(fields[1]), "the count of the symbol")
			}
		}
		if err := checkSymbol(len(symbols), fields[0], seen); err != nil {
			return nil, err
		}
		symbols = append(symbols, fields[0])
	}
	if err := in.Err(); err != nil {
		return nil, malformed("vocabulary", err.Error(), "lines of a symbol each")
	}
	return symbols, nil
}

// checkSymbol refuses symbols that no word of a text can be, and those that come twice.
func checkSymbol(i int, s string, seen map[string]bool) error {
	where := "vocabulary, symbol " + strconv.Itoa(i)
	switch {
	case s == "" || len(strings.Fields(s)) != 1 || strings.Fields(s)[0] != s || !utf8.ValidString(s):
		return malformed(where, quote(s), "one word in UTF-8 without white space")
	case seen[s]:
		return malformed(where, quote(s)+" again", "every symbol once")
	}
	seen[s] = true
	return nil
}

package checkpoint

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nlpodyssey/gopickle/types"

	"github.com/lmserve/lmserve/internal/serving/reload"
	"github.com/lmserve/lmserve/tokenizer"
)

// ReadVocabulary reads a vocabulary file and returns the vocabulary's tokenizer. The file is a text
// for tokenizer.ReadVocabulary, or a pickle written by pickle.dump or torch.save. The pickled
// object is the reference implementation's Vocab, a corpus that contains a Vocab, or the dictionary
// of Hugging Face's library.
func ReadVocabulary(path string) (*tokenizer.Words, error) {
	f, err := reload.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	words, err := readVocabulary(f, info.Size())
	if errors.Is(err, tokenizer.ErrVocabulary) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return words, inFile(err, path)
}

func readVocabulary(f io.ReaderAt, size int64) (*tokenizer.Words, error) {
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
	// every pickle of protocol 2 or later begins with the byte 0x80, and no UTF-8 text does
	case bytes.HasPrefix(head, []byte{0x80}):
		object, err = loadVocabulary(f, size)
	default:
		return tokenizer.ReadVocabulary(io.NewSectionReader(f, 0, size))
	}
	if err != nil {
		return nil, err
	}
	symbols, err := symbolsOf(object)
	if err != nil {
		return nil, err
	}
	return tokenizer.NewWords(symbols)
}

// loadVocabulary returns the object in a file written by pickle.dump, or by torch.save before
// version 1.6.
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

func symbolsOf(object any) ([]string, error) {
	attributes, err := attributesOfAny(object)
	if err != nil {
		return nil, err
	}
	if inner, ok := attributes["vocab"]; ok {
		if attributes, err = attributesOfAny(inner); err != nil {
			return nil, err
		}
	}
	list, ok := attributes["idx2sym"].(*types.List)
	if !ok {
		return nil, malformed("vocabulary, idx2sym", describe(attributes["idx2sym"]),
			"a list of symbols")
	}
	symbols := make([]string, list.Len())
	for i, o := range *list {
		s, ok := o.(string)
		if !ok {
			return nil, malformed("vocabulary, symbol "+strconv.Itoa(i), describe(o), "a string")
		}
		symbols[i] = s
	}
	return symbols, nil
}

func attributesOfAny(object any) (map[string]any, error) {
	if m, ok := object.(*module); ok {
		return m.attributes, nil
	}
	return stringKeys(object)
}

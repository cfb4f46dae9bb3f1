package tokenizer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// vocabLineMost is the maximum length in bytes of a line of a vocabulary file: a symbol, a count
// and white space.
const vocabLineMost = MaxWordBytes + 64

// ReadVocabulary reads a vocabulary file of the reference implementation. Each line of text has one
// symbol, optionally followed by its count; ids are in line order. As in the reference
// implementation, counts are ignored and repeated symbols are skipped. Errors wrap ErrVocabulary
// and name the line.
func ReadVocabulary(r io.Reader) (*Words, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, vocabLineMost), vocabLineMost)
	seen, size := map[string]bool{}, 0
	var symbols []string
	line := 0
	for lines.Scan() {
		line++
		symbol, err := vocabSymbol(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrVocabulary, line, err)
		}
		if seen[symbol] {
			continue
		}
		if size += len(symbol) + 1; size > MaxSymbolBytes || len(symbols) == MaxVocab {
			return nil, fmt.Errorf("%w: line %d: found more than %d symbols or %d bytes",
				ErrVocabulary, line, MaxVocab, MaxSymbolBytes)
		}
		seen[symbol] = true
		symbols = append(symbols, symbol)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil,
			fmt.Errorf("%w: line %d is longer than %d bytes, expected a symbol and a count",
				ErrVocabulary, line+1, vocabLineMost)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVocabulary, err)
	}
	return NewWords(symbols)
}

func vocabSymbol(line []byte) (string, error) {
	var p Pending
	symbol, rest := p.next(append(line[:len(line):len(line)], ' '))
	if symbol.kind != wordPiece {
		return "", errors.New("found nothing, expected a symbol")
	}
	if symbol.word == nil {
		return "", fmt.Errorf("found a symbol of %d bytes, expected at most %d", symbol.size,
			MaxWordBytes)
	}
	if err := checkSymbol(string(symbol.word)); err != nil {
		return "", err
	}
	if rest = bytes.TrimSpace(rest); len(rest) > 0 {
		if _, err := strconv.ParseUint(string(rest), 10, 64); err != nil {
			return "", fmt.Errorf("found %q after the symbol, expected its count or "+
				"nothing", rest)
		}
	}
	return string(symbol.word), nil
}

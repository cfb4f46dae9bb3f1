package main

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printed prints a value as JSON if asJSON is true, and otherwise with the function print.
func printed[T any](w io.Writer, v T, asJSON bool, print func(io.Writer, T) error) error {
	if asJSON {
		return printJSON(w, v)
	}
	return print(w, v)
}

// printObject prints a value as a JSON object on one line.
func printObject(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

func orWord(text string, instead bool, word string) string {
	if instead {
		return word
	}
	return text
}

// date formats a time to the second, or - for the zero time.
func date(t time.Time) string { return orWord(t.Format(time.DateTime), t.IsZero(), "-") }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// lockedWriter is safe for concurrent use: it makes one Write at a time.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// printable escapes all characters that could control the terminal, except tabs and newlines. The
// text may come from a file, or be a file's name.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

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

func printed[T any](w io.Writer, v T, asJSON bool, print func(io.Writer, T) error) error {
	if asJSON {
		return printJSON(w, v)
	}
	return print(w, v)
}

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

func date(t time.Time) string { return orWord(t.Format(time.DateTime), t.IsZero(), "-") }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// printableLine is printable for a text in one line: it also escapes tabs and newlines.
func printableLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(printable(text))
}

// printable escapes all unprintable characters except tabs and newlines. Otherwise, text and names
// of files could control the terminal.
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

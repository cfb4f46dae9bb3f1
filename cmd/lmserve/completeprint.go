package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lmserve/lmserve/api/client"
)

// finishInterrupted is the finish reason of a completion that a signal ended.
const finishInterrupted client.FinishReason = "interrupted"

type completionPrinter struct {
	out              io.Writer
	prompt           string
	seed             uint64
	asJSON, logprobs bool
	words            bool

	text  []byte
	shown strings.Builder // the text, with U+FFFD for invalid UTF-8
	done  client.Completion
}

func (p *completionPrinter) print(all iter.Seq2[client.CompletionEvent, error]) error {
	failed := p.begin()
	for e, err := range all {
		switch {
		case err != nil:
			failed = err
		case e.Piece != nil:
			failed = p.piece(e.Piece)
		case e.Done != nil:
			p.done = client.Completion{
				Type: client.EventCompletion, FinishReason: e.Done.FinishReason,
				Usage: e.Done.Usage, Seed: e.Done.Seed, Offset: e.Done.Offset,
				ElapsedMs: e.Done.ElapsedMs, Logprobs: p.done.Logprobs, Tokens: p.done.Tokens,
				TopLogprobs: p.done.TopLogprobs,
			}
		}
		if failed != nil {
			break
		}
	}
	if failed != nil && len(p.text) == 0 {
		return failed
	}
	return cmp.Or(failed, p.end())
}

func (p *completionPrinter) begin() (err error) {
	switch {
	case p.asJSON:
	case p.logprobs:
		_, err = fmt.Fprintf(p.out, "%-*s %8s  %s\n", p.width(), "token", "logprob", "likeliest")
	default:
		_, err = io.WriteString(p.out, p.prompt)
	}
	return err
}

func (p *completionPrinter) piece(e *client.PieceEvent) (err error) {
	text := e.TextBytes()
	p.text = append(p.text, text...)
	p.shown.WriteString(e.Text)
	p.done.Logprobs = append(p.done.Logprobs, e.Logprobs...)
	p.done.Tokens = append(p.done.Tokens, e.Tokens...)
	p.done.TopLogprobs = append(p.done.TopLogprobs, e.TopLogprobs...)
	switch {
	case p.asJSON:
	case p.logprobs:
		for i := range e.Logprobs {
			if err == nil {
				err = p.token(e, i)
			}
		}
	default:
		_, err = io.WriteString(p.out, e.Text)
	}
	return err
}

func (p *completionPrinter) token(e *client.PieceEvent, i int) error {
	token := ""
	switch text := e.TextBytes(); {
	case i < len(e.Tokens):
		token = e.Tokens[i]
	case i < len(text): // without a list of tokens, each byte is a token
		token = string(text[i : i+1])
	default:
		return nil
	}
	var likeliest strings.Builder
	if i < len(e.TopLogprobs) {
		for _, t := range e.TopLogprobs[i] {
			text := string([]byte{byte(t.Token)}) // a token without text is a byte
			if t.Text != nil {
				text = *t.Text
			}
			fmt.Fprintf(&likeliest, "  %q %.3f", text, t.Logprob)
		}
	}
	_, err := fmt.Fprintf(p.out, "%-*s %8.3f%s\n", p.width(), strconv.Quote(token), e.Logprobs[i],
		&likeliest)
	return err
}

func (p *completionPrinter) width() int {
	if p.words {
		return 16
	}
	return 8
}

func (p *completionPrinter) end() (err error) {
	switch {
	case p.asJSON:
		if p.done.FinishReason == "" {
			p.done.Type, p.done.FinishReason = client.EventCompletion, finishInterrupted
			p.done.Seed, p.done.Usage.CompletionTokens = p.seed, p.tokens()
		}
		p.done.Text = p.shown.String()
		if !utf8.Valid(p.text) {
			p.done.TextBase64 = p.text
		}
		return printJSON(p.out, p.done)
	case !p.logprobs:
		_, err = io.WriteString(p.out, "\n")
	}
	return err
}

// tokens returns the number of tokens of the text: words and line ends for a model of words, else
// bytes.
func (p *completionPrinter) tokens() int64 {
	if !p.words {
		return int64(len(p.text))
	}
	return int64(len(bytes.Fields(p.text)) + bytes.Count(p.text, []byte{'\n'}))
}

// sizeOfAll returns the total size of files in bytes, or 0 if a size is unknown.
func sizeOfAll(files []string) (all int64) {
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		all += info.Size()
	}
	return all
}

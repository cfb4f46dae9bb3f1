// Package eval scores the same documents with several methods of adaptation on
// the same weights, side by side.
package eval

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lmserve/lmserve/internal/model"
	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
)

// Options say what to score and how. The zero value scores every byte with
// the methods static and, if the model has meta-learners, sparse-meta.
type Options struct {
	Methods  []string
	MaxBytes int64 // of each document, from its beginning; 0: all
	Seed     uint64
	Threads  int // 0: one
	// Progress, if set, is told after each chunk how many bytes of all
	// documents and methods together have been scored.
	Progress func(done, total int64)
}

// Result of an evaluation; documents in path order.
type Result struct {
	Model     string     `json:"model"`
	Methods   []string   `json:"methods"`
	Documents []Document `json:"documents"`
	Total     Document   `json:"total"`
}

// Document is what each method made of one document, in the order of Methods.
type Document struct {
	Path   string  `json:"path"`
	Bytes  int64   `json:"bytes"`
	Scores []Score `json:"scores"`
}

// Score is one method on one document.
type Score struct {
	Method  string  `json:"method"`
	Bits    float64 `json:"bits"`
	BPC     float64 `json:"bpc"` // bits per character; a byte-level model's characters are bytes
	Seconds float64 `json:"seconds"`

	tally tokenizer.Tally
}

// Directory evaluates every regular file below dir, each as a stream of its
// own from a fresh state.
func Directory(ctx context.Context, m *model.Model, dir string, o Options) (Result, error) {
	files, total, err := documents(dir, o.MaxBytes)
	if err != nil {
		return Result{}, err
	}
	if len(o.Methods) == 0 {
		o.Methods = []string{stream.Static}
		if m.Learner != nil {
			o.Methods = append(o.Methods, stream.SparseMeta)
		}
	}
	e := evaluation{Options: o, model: m, total: total * int64(len(o.Methods))}
	for _, method := range o.Methods {
		set := stream.Defaults(m)
		set.Method, set.Seed = method, o.Seed
		if err := set.Validate(m); err != nil {
			return Result{}, fmt.Errorf("eval: %w", err)
		}
		e.settings = append(e.settings, set)
	}
	e.worker = stream.NewWorker(m, max(1, o.Threads))
	defer e.worker.Close()
	res := Result{Model: m.ID(), Methods: o.Methods, Total: Document{Path: "total", Scores: make([]Score, len(o.Methods))}}
	for _, name := range files {
		doc, err := e.document(ctx, dir, name)
		if err != nil {
			return Result{}, err
		}
		res.Documents = append(res.Documents, doc)
		res.Total.Bytes += doc.Bytes
		for k, s := range doc.Scores {
			sum := &res.Total.Scores[k]
			sum.add(s)
		}
	}
	return res, nil
}

func (s *Score) add(o Score) {
	s.Method = o.Method
	s.tally.Add(o.tally)
	s.Bits, s.BPC = s.tally.Bits, s.tally.BitsPerChar()
	s.Seconds += o.Seconds
}

type evaluation struct {
	Options
	model       *model.Model
	settings    []stream.Settings
	worker      *stream.Worker
	done, total int64
}

func (e *evaluation) document(ctx context.Context, dir, name string) (Document, error) {
	text, err := read(filepath.Join(dir, name), e.MaxBytes)
	if err != nil {
		return Document{}, fmt.Errorf("eval: %w", err)
	}
	doc := Document{Path: name, Bytes: int64(len(text))}
	for _, set := range e.settings {
		s := stream.New(e.model, set)
		start := time.Now()
		for rest := text; len(rest) > 0; {
			if err := ctx.Err(); err != nil {
				return Document{}, err
			}
			n := min(len(rest), s.Room())
			e.worker.Feed(s, rest[:n], nil)
			rest = rest[n:]
			e.done += int64(n)
			if e.Progress != nil {
				e.Progress(e.done, e.total)
			}
		}
		doc.Scores = append(doc.Scores, Score{Method: set.Method, Bits: s.Tally.Bits, BPC: s.Tally.BitsPerChar(),
			Seconds: time.Since(start).Seconds(), tally: s.Tally})
	}
	return doc, nil
}

// documents lists the non-empty regular files below dir in path order.
func documents(dir string, maxBytes int64) (files []string, total int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		size := info.Size()
		if maxBytes > 0 {
			size = min(size, maxBytes)
		}
		files, total = append(files, name), total+size
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("eval: %w", err)
	}
	if len(files) == 0 {
		return nil, 0, fmt.Errorf("eval: %s: no documents found, expected files with text", dir)
	}
	return files, total, nil
}

func read(path string, maxBytes int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if maxBytes > 0 {
		r = io.LimitReader(f, maxBytes)
	}
	return io.ReadAll(r)
}
